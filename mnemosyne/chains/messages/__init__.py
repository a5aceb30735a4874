"""Messages of a conversation: their ids, and what they carry beside their text."""
