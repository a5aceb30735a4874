"""Stores of sessions (SQLite, PostgreSQL, JSON files, memory) behind one protocol, `mnemosyne.protocols.Store`.

Terms that all stores use:

- tenant: the owner of sessions and worlds; tenants do not see each other's data.
- scope: one session (`session:ID`) or one world (`world:ID`), to which entries of memory belong.
- chain: one kind of entries in a scope (history, narrative, event, lore, …).
- head: the newest committed turn of a branch, with the version of its session. The version grows with every write.
- depth: the number of a turn on its path, counted from 1.
- lineage: the path to a head, as spans: (branch, depth up to which its turns belong to the path), newest branch first.
- body: a stored value as JSON, with a checksum.
- revision: the format of the tables; a release reads exactly one.
"""
