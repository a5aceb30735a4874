"""Shares index rows between several hosts through a store: encodes the rows as bytes, and reads and writes them for a host."""
