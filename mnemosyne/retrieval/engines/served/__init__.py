"""Scopes that are searched in a published snapshot: its table is only read, and what has changed since is in memory."""
