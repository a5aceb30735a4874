"""Stores sessions in PostgreSQL, for many processes on many hosts."""
