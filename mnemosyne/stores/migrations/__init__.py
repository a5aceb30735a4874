"""Alembic's folder: the revisions of the SQL tables, one per file in `versions/`. A released revision is never edited."""
