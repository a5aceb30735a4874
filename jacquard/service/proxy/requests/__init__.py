"""Calls of chat clients: their form, their headers, and the rules for those that are not turns."""
