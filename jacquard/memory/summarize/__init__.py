"""Makes rolling summaries: a few sentences that stand for the turns that the history in the prompt no longer shows.

- `span`: decides which turns the summary covers, and when it must cover more. Pure.
- `batches`: makes a summary batch by batch.
- `model`: a summarizer that asks a small model.
- `extract`, `sentences`, `worth`: a summarizer without a model, which keeps the most informative sentences.
- `roller`: makes summaries when they are due and stores them. A turn waits for a summary for a bounded time.

This package must not import a concrete store or model.
"""
