"""Upkeep of stores: health checks, and housekeeping by one process at a time (the one that holds a lease)."""
