"""Messages of a conversation: their ids, the digests that identify them, and their contents in addition to text."""
