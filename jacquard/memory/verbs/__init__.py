"""Implements the memory verbs: edits of memory by hand (remember, edit, supersede, pin, undo). Each edit is stored with
its author and its time.
"""
