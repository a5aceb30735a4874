"""Model servers behind the proxy."""
