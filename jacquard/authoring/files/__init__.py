"""Imports files of other programs (character cards, books, chats, memories) as worlds and sessions, and exports them
again.
"""
