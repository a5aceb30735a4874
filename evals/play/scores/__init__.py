"""Scores of the prompts of plays, and their figures."""
