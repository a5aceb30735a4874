"""Verbs on memory: manual edits by an author or a player, each with its author, its time and its undo."""
