"""Contains the prompts for small models. Each language has a folder of text templates; the module `templates` loads and
renders them.
"""
