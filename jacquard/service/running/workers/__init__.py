"""Runs one service in several processes: gives each session to one process, and forwards requests to that process."""
