"""Consolidates memory: makes turn summaries, events and narratives from committed turns, in the background.

- `prompts`: builds the prompt of the small model and reads its answers. Pure.
- `spans`: decides which turns one narrative covers. Pure.
- `consolidator`: consolidates one branch in batches, so that the work can be stopped and continued.

This package must not import a concrete store or model.
"""
