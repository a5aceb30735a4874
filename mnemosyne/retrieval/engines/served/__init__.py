"""Scopes that are searched in a published snapshot: its table is only read, and later changes are in memory."""
