"""Checks ops (changes of a state) against the author's rules, turns them into JSON Patch, and applies them."""
