"""Boundary between a host and an engine: values, the lock on a session, the task that keeps the engine open."""
