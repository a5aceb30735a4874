"""How late prompts come when the small model is slow, hangs, dies or comes back."""
