"""Rolling summaries (spec 2.2 A3 and E2; seed 002 section 6.9): what the history no longer shows, in a few sentences.

- `span` what a summary covers, what history shows beside it, and when more is to be covered. Pure.
- `wording` the prompt of the small model, and its answer read as data. Pure.
- `model`, `extract` the two summarizers: a small model; without one, the gist of each turn.
- `roller` makes and keeps summaries, on a turn's path for a bounded time, else behind it.

It must not import a concrete store or model.
"""
