"""Converts files of other programs into worlds. Cards and books become the files of a world pack, and the books can be
exported again.

A world pack is a folder that describes one world: its lore, state, persona and rules.
"""
