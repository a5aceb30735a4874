"""Brings the evidence of a session into its prompts.

Evidence is a stored text with its source, such as the result of a tool or a search. A context block is a block of the session's
document; it may refer to evidence. A ref points at (a part of) one evidence item, with a hash of its text; the selector of a ref
names the part.
"""
