"""Alembic's folder: how a store's tables came to be, one revision a file in `versions/`. A released revision is never edited."""
