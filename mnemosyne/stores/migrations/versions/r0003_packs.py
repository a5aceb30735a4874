"""World packs in the store.

Revision 0003. A world whose lore an older release wrote has no pack yet: the pack is added when the world is named
again, or from the folder that the older release recorded.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_WORDS = {
    "sqlite": {"text": "TEXT", "blob": "BLOB"},
    "postgresql": {"text": 'TEXT COLLATE "C"', "blob": "BYTEA"},
}

_TABLE = """CREATE TABLE packs (
        tenant {text} NOT NULL, world_id {text} NOT NULL, digest {text} NOT NULL, body {blob} NOT NULL,
        PRIMARY KEY (tenant, world_id, digest))"""


def upgrade() -> None:
    """Create the empty table of packs."""
    bind = op.get_bind()
    bind.exec_driver_sql(_TABLE.format_map(_WORDS[bind.dialect.name]))
