"""Rolling summaries of the turns that the history no longer shows, in a few sentences.

- `span`: the turns of summary and history, and when the summary must cover more. Pure.
- `prompts`: builds the prompt of the small model and reads its answer. Pure.
- `model`, `extract`: two summarizers, one with a small model, one that takes a line of each turn.
- `roller`: makes and stores summaries; a turn waits for them for a bounded time, then they continue in the background.

This package must not import a concrete store or model.
"""
