"""Reads and writes checkpoints (the files of scopes in memory), and decides when each is due."""
