"""Books of lore of other programs. Every reader returns entries with the fields of SillyTavern's world info; writers
write them back.

A book of lore has entries. An entry has a text and keys, and the text enters the prompt when the chat mentions a key.
"""
