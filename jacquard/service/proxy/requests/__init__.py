"""Reads the calls of chat clients: their form, their headers and paths, and the rules for calls that are not turns."""
