"""Fills indexes: new entries with their vectors, rebuilding, and the change of the embedder."""
