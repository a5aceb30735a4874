"""Checkpoints of scopes in memory: their files, and scopes that open from them or are still read."""
