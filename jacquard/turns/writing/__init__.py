"""Writes the results of models and hosts: replies, complete or in chunks, and repairs of the state."""
