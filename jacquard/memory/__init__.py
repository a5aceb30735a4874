"""Memory made from the conversation: rolling summaries, and consolidation into turn summaries, events and narratives."""
