"""Plays: sessions from scripts, through the real engine, every prompt scored against the truth of its script."""
