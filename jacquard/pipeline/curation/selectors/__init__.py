"""Selectors: a small model, a reranker, and the heuristic that needs neither."""
