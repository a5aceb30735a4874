"""Provides access to the model servers behind the proxy (upstreams)."""
