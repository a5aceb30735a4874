"""Keeping a SQL store in order: leases, archived sessions, figures."""
