"""Several processes of one service: assignment of sessions to processes, and forwarding of requests."""
