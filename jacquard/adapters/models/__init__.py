"""Connects the models that an engine calls: language models, rerankers, and embedding on workers."""
