"""Recall: the arms of search, their fusion, reranking, and keeping the index up to date."""
