"""Skeleton."""
