"""The column by which a conversation without a name is found: digests of exchanges.

Revision 0008. It is empty at first: conversations are found by what is said from now on. Processes of the release before go on
over it.
"""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the empty column and its index."""
    bind = op.get_bind()
    text = 'TEXT COLLATE "C"' if bind.dialect.name == "postgresql" else "TEXT"
    bind.exec_driver_sql(f"ALTER TABLE messages ADD COLUMN exchange {text}")
    bind.exec_driver_sql("CREATE INDEX messages_by_exchange ON messages (exchange, seq) WHERE exchange IS NOT NULL")
