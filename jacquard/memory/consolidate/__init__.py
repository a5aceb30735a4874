"""Consolidation: turns become memory outside of every turn's path (spec 2, E1): turn summaries, events, narratives of many turns.

- `prompts`: the prompt of the small model, and its answers read as data. Pure.
- `spans`: which turns lack a summary, and where a narrative ends. Pure.
- `consolidator`: does it for one branch, batch by batch, so that it can be stopped and continued.

This package must not import a concrete store or model.
"""
