"""Session documents and context packages: reading, writing, checking, and their JSON Schemas."""
