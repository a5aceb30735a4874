"""Offers the operations of the engine over HTTP and JSON."""
