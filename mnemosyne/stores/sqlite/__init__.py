"""Stores sessions in a SQLite file, or in a SQLite database in memory."""
