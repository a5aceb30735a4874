"""Upkeep of stores: housekeeping by lease, and health checks."""
