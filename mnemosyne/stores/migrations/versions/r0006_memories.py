"""The column that tells recalled memories from other evidence.

Revision 0006. It is empty at first: a turn that reads rows without it fills it when it writes, session by session, so that no host
waits for the whole table. Processes of the release before go on over it.
"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the empty column."""
    bind = op.get_bind()
    number = "BIGINT" if bind.dialect.name == "postgresql" else "INTEGER"
    bind.exec_driver_sql(f"ALTER TABLE evidences ADD COLUMN is_memory {number}")
