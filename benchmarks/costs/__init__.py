"""What a turn does, in counts that are the same on every machine."""
