"""Service: the engine for clients in other processes and languages."""
