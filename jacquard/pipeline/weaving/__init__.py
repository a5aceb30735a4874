"""Weaving: the blocks of both streams are ordered, pruned to the budget and assembled into messages."""
