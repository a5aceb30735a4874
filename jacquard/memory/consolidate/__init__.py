"""Consolidation: makes memory from committed turns, in the background: turn summaries, events, narratives.

- `prompts`: builds the prompt of the small model and reads its answers. Pure.
- `spans`: finds the turns without a summary, and the end of a narrative. Pure.
- `consolidator`: consolidates one branch, batch by batch, so that it can be stopped and continued.

This package must not import a concrete store or model.
"""
