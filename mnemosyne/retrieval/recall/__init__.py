"""Recall: searches memory by words and by vectors, fuses and reranks the results, and keeps the index up to date."""
