"""Prompts for small models: one folder of text templates a language, and `templates`, which loads and renders them."""
