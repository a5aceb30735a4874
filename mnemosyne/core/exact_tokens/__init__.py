"""Counts tokens exactly, with the tokenizer of a model. Each module imports one library."""
