"""Chats of other programs: SillyTavern's JSONL and others, messages of the OpenAI API, transcripts."""
