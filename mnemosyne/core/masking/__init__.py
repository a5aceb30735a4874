"""Keeps credentials out of addresses, errors, events and logs."""
