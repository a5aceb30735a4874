"""Index rows that several hosts share, as bytes, and each host's part in them."""
