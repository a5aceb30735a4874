"""Answers of model servers: their events and texts, and answers of our own."""
