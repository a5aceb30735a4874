"""Access to the model servers behind the proxy."""
