"""Text handling for memory search: word tokens, BM25 scores, dates in texts, and previews."""
