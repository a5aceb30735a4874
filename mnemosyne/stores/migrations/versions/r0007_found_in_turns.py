"""The columns that say in which turn evidence was found, who may know it, and which turn another is a copy of.

Revision 0007. They are empty at first, as older rows do not say it. Processes of the release before go on over it.
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the empty columns."""
    bind = op.get_bind()
    text = 'TEXT COLLATE "C"' if bind.dialect.name == "postgresql" else "TEXT"
    for table, column in (("evidences", "turn_id"), ("evidences", "readers"), ("turns", "origin_id")):
        bind.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {column} {text}")
    for table, name, column in (("turns", "turns_copied", "origin_id"), ("evidences", "evidences_of_turn", "turn_id")):
        bind.exec_driver_sql(f"CREATE INDEX {name} ON {table} (session, {column}) WHERE {column} IS NOT NULL")
