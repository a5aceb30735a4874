"""Maintains a SQL store: leases (the right of one process to do a job), archived sessions, and usage figures."""
