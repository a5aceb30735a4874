"""The rules of the template lint, one module for each kind of fault."""
