"""Searches scopes in published snapshots. A snapshot is the index of a world that another process made. Its table is only read;
later changes are kept in memory.
"""
