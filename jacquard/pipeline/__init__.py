"""Prepares and records turns. A turn is one user message with its reply.

- `planning` decides what the turn is about.
- `skeleton` is Stream A: it renders the part of the prompt that follows fixed rules (state, quests, guidance, history).
- `curation` is Stream B: it recalls memories and selects those that the prompt shows.
- `evidence` brings stored results of tools and searches, and blocks of the session's document, into the prompt.
- `weaving` orders the blocks (pieces) of both streams, fits them into the token budget, and makes the messages.
- `record` stores the prompt with its receipt (why each block is in the prompt), and commits the reply.
"""
