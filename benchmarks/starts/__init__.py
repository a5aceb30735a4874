"""First turns: of a fresh process, and of a session that is not in its memory yet."""
