"""Ops on a state: checked against the author's rules, turned into JSON Patch, and applied."""
