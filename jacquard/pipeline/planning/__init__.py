"""Planning: decides what a turn is about, by rules and, if they are not confident, by a small model."""
