"""Writes of the SQL stores."""
