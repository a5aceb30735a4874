"""Copies whole stores, for backup, restore and migration."""
