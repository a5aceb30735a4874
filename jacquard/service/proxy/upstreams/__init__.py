"""The model servers behind the proxy."""
