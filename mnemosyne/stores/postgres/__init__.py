"""The shared store in PostgreSQL."""
