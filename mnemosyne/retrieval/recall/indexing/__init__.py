"""Fills indexes: adds new entries with their vectors, rebuilds indexes, and changes the embedder of a scope."""
