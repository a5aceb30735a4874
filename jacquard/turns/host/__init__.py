"""What stands between a host and an engine: its values, the lock on a session, the task that keeps the engine open."""
