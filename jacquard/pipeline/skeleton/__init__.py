"""Runs Stream A of a turn: renders the skeleton, the part of a prompt that follows fixed rules.

The skeleton consists of the blocks that the templates make of the state (a tree of values), the quests and the world, of the
messages of the history, and of the user's input.
"""
