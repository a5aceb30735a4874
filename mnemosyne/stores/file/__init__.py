"""The store in JSON files."""
