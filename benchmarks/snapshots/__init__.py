"""What a published index of a large world saves a host, and what opening it costs."""
