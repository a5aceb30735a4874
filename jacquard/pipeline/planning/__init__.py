"""Planning: decides what a turn is about, by rules and, where they are not confident, by a small model."""
