"""Reads and writes character cards (a character with its texts and greetings) of the versions V1, V2 and V3.

A card is a JSON file, a text chunk of a PNG, or a `card.json` in a CHARX archive.
"""
