"""Overhead of the service for a turn, its capacity, and its behaviour beyond that."""
