"""Searches scopes in a published snapshot, the index of a world made by a worker. Its table is only read, and later
changes are in memory.
"""
