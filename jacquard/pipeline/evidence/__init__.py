"""Brings the evidence of a session into its prompts.

Evidence is a stored text with its source, such as the result of a tool or a search. A context block is a block of the
session's document; it may refer to evidence. A ref points at one evidence item or at a part of it, and has a hash of
the text. The selector of a ref names the part.
"""
