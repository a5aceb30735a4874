"""Runs the service: processes, logs, metrics, shutdown."""
