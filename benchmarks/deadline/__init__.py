"""Lateness of prompts when the small model is slow, hangs, dies or comes back."""
