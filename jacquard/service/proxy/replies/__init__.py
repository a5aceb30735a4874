"""Answers of model servers: their events, what is said in them, and answers of our own."""
