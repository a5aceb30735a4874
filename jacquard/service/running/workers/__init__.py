"""Several processes of one service: which of them a session belongs to, and how a request comes to it."""
