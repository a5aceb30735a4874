"""What several hosts share of an index: its rows as bytes, and each host's part in them."""
