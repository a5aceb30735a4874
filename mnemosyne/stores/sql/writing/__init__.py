"""Writes of the SQL stores. Each function runs inside a write transaction that its caller has opened."""
