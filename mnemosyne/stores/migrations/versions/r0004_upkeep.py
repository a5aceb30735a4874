"""Archived sessions, leases, and the revision of the tables.

Revision 0004. It only adds tables, so processes of the release before go on over it.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_WORDS = {
    "sqlite": {"int": "INTEGER", "text": "TEXT", "blob": "BLOB"},
    "postgresql": {"int": "BIGINT", "text": 'TEXT COLLATE "C"', "blob": "BYTEA"},
}

_TABLES = (
    """CREATE TABLE archives (
        session {int} NOT NULL PRIMARY KEY, tenant {text} NOT NULL, archived_at {text} NOT NULL, active_at {text} NOT NULL,
        active_branch {text} NOT NULL, number_of_rows {int} NOT NULL, raw_bytes {int} NOT NULL, packed_bytes {int} NOT NULL,
        heads {blob} NOT NULL, authors {blob} NOT NULL)""",
    "CREATE INDEX archives_by_age ON archives (tenant, archived_at, session)",
    """CREATE TABLE archive_parts (
        session {int} NOT NULL, part {int} NOT NULL, body {blob} NOT NULL, PRIMARY KEY (session, part))""",
    """CREATE TABLE leases (
        name {text} NOT NULL PRIMARY KEY, holder {text} NOT NULL, token {int} NOT NULL, until_us {int} NOT NULL)""",
    "CREATE TABLE store_revision (revision {int} NOT NULL PRIMARY KEY)",
)


def upgrade() -> None:
    """Create the empty tables."""
    bind = op.get_bind()
    for table in _TABLES:
        bind.exec_driver_sql(table.format_map(_WORDS[bind.dialect.name]))
