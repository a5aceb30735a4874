"""Index engines: in memory, on disk in LanceDB, and the tiered index that uses both.

- A row is one entry in an index: its position in the turn tree, its search words and its vector.
- A large scope is a scope (one session or one world) with more rows than are kept in memory. A graph is an index on
  disk that finds its nearest vectors quickly.
- The deltas of a large scope are two tables with new rows that are not in its graph yet.
- A checkpoint is the file of a scope in memory. A segment is a part of a scope's rows that hosts share.
- The generation of a scope changes when the scope is dropped. A host is a process that serves sessions.
"""
