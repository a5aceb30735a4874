"""Prompts for small models. Each language has a folder of text templates; `templates` loads and renders them."""
