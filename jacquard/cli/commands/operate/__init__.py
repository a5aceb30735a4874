"""Commands for those who run a service: its process, its tokens, and whole stores."""
