"""Rolling summaries (spec 2.2 A3 and E2; seed 002 section 6.9): what the history no longer shows, in a few sentences.

- `span`: what a summary covers, what history shows beside it, and when more is to be covered. Pure.
- `prompts`: the prompt of the small model, and its answer read as data. Pure.
- `model`, `extract`: the two summarizers, with a small model, and without one from a line of each turn.
- `roller`: makes and keeps summaries, on a turn's path for a bounded time, else in the background.

This package must not import a concrete store or model.
"""
