"""Exact token counts by a model's own tokenizer; each module imports one library."""
