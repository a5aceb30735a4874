"""Verbs on memory: what an author or a player does to it by hand, each with its author, its time and its undo."""
