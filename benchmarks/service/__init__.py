"""What the service adds to a turn, how many turns it makes, and what it does beyond that."""
