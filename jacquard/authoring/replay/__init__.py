"""Rebuilds recorded prompts, shows them under another configuration, and finds the origin of each place in a prompt."""
