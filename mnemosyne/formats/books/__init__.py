"""Reads and writes books of lore of other programs.

A book of lore has entries. An entry has a text and keys, and the text enters the prompt when the chat mentions a key.
Every reader returns entries with native fields, which are the fields of SillyTavern's world info under their names there.
The uid of an entry is its id in the book.
"""
