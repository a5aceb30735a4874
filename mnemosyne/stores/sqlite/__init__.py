"""The embedded store in a SQLite file."""
