"""Queries of the SQL stores. None of them writes."""
