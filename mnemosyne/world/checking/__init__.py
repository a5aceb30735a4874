"""Checks a world pack as a whole: links between its parts, the state, rules (`$meta`), ops (changes of the state) and
patterns.
"""
