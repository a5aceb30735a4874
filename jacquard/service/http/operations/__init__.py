"""What the service can do: one module for each kind of operations."""
