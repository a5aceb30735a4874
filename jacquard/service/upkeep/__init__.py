"""Keeping stores in order: housekeeping by lease, and what is where."""
