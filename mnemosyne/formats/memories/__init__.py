"""Memories and conversations of agent libraries: mem0, LangChain, LangGraph, LlamaIndex."""
