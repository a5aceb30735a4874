"""Scores for the gold answer of a query in the prompt."""
