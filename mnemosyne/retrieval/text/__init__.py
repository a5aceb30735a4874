"""Words: tokens, BM25 and previews."""
