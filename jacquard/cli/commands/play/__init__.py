"""Commands of a player: turns, sessions, receipts."""
