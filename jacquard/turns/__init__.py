"""Turns: the engine, and the steps of one turn from its input to its committed reply."""
