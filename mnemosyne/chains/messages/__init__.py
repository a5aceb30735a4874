"""Messages of a conversation: their ids, and their contents in addition to text."""
