"""Contains the words by which the planner reads an input, with one module for each language.

Every input is read with the words of all languages.
"""
