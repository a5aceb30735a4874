"""Provides selectors, which choose among recalled memories: a small model, a reranker, and rules that need no model."""
