"""Scripts of plays: their values, and how they are read."""
