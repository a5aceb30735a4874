"""What a session was given beside the talk: results of tools and searches, and blocks of documents, for the prompt."""
