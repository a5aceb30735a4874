"""A plugin with one part of each kind. Its entry points are in pyproject.toml."""
