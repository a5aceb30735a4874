"""One scope in memory: its rows, their words and vectors, and the file from which it opens at once."""
