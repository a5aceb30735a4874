"""Queries of the SQL stores."""
