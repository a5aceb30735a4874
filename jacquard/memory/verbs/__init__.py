"""Verbs on memory: edits by hand (remember, edit, supersede, pin, undo), each stored with its author and its time."""
