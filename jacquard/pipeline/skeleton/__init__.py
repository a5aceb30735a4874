"""Runs Stream A of a turn: renders the skeleton, the part of a prompt that follows fixed rules.

The skeleton consists of three kinds of blocks: blocks that the templates make of the state (a tree of values), the
quests and the world; the messages of the history; and the user's input.
"""
