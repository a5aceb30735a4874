"""Reads the normalised corpus (`corpus.jsonl`): turns in one simple form, for exports of a host and for labelled test
sets.
"""
