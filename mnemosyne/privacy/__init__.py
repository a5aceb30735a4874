"""Redaction before storage, and erasure with its proof."""
