"""Session documents and context packages: reading, writing, checking, migrating, and their JSON Schemas."""
