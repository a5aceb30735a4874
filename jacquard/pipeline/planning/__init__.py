"""Planning: what a turn is about, by rules and, where they are unsure, by a small model."""
