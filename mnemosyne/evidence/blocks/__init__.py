"""Evidence as context blocks: derived, resolved by their refs, rendered as text."""
