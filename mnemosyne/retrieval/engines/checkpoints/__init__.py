"""Checkpoints, the files of scopes in memory: their format, and the decision when each is read and written."""
