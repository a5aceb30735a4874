"""Readers and writers for files of other programs.

They cover books of lore (world information that enters a prompt by keywords), character cards, chats, notes, memories and
corpora. A reader returns an `ImportedFile`: the contents in one form for all programs, and the fate of each field (kept,
changed or not supported).
"""
