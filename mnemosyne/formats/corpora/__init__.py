"""Reads the normalised corpus (`corpus.jsonl`): the messages and memories of sessions, one per line.

Hosts write their exports in this form, and labelled test sets have it too.
"""
