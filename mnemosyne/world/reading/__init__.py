"""Reads a world pack: its files, lore in Markdown, and the draft (all files parsed and each checked on its own)."""
