"""Appends and window loads in every store, compared with its plain driver."""
