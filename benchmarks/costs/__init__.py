"""Costs of a turn, in counts that are the same on every machine."""
