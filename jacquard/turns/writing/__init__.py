"""Writes what a model or a host hands back: replies, whole or in chunks, and repairs of the state."""
