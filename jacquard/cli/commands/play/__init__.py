"""Commands for playing sessions: turns, sessions, and the reasons for prompts."""
