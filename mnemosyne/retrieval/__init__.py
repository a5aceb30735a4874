"""Memory search: embedding models, indexes, recall, and index snapshots of large worlds.

Terms used in this package:

- An entry is one piece of memory. A scope is one session or one world, and a chain is one kind of entries in a scope:
  lore, narrative, event or history (messages).
- A sequence is the running number of a written entry. A watermark is the highest sequence that an index has seen.
- Recall returns the entries that fit a query. An arm is one way of searching for them: by words (BM25) or by vectors.
- The source is the store from which an index is filled.
"""
