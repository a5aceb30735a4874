"""Evidence of a session for the prompt: results of tools and searches, and blocks of documents."""
