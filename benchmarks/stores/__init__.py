"""Appends and window loads in every store beside its plain driver."""
