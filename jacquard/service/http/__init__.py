"""The engine over HTTP and JSON."""
