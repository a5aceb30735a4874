"""Turning what was played into memory, off every turn's path (spec 2, E1): turn summaries, events, narratives of many turns.

- `wording` what the small model is told, and its answers read as data. Pure.
- `spans` which turns lack a summary, and where a narrative ends. Pure.
- `memory` does it for one branch: batch by batch, so that it can be stopped and taken up again.

It must not import a concrete store or model.
"""
