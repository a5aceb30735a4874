"""Reads the memories and conversations that the agent libraries mem0, LangChain, LangGraph and LlamaIndex store."""
