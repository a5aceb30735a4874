"""Index rows that several hosts share through a store: their form as bytes, and each host's reading and writing of them."""
