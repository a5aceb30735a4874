"""Replay of recorded prompts, comparison under another configuration, and the provenance of each place in a prompt."""
