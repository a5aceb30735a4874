"""Chats of other programs: read as turns, and written again."""
