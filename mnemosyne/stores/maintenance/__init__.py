"""Copies of whole stores, and their migration."""
