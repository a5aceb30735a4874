"""Deletes shared index data of erased texts, from a database that several hosts use (`sql.schema.SHARED`).

`mnemosyne.stores.postgres` writes and reads this data. Each function runs inside a transaction that its caller has
opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from mnemosyne.core.codec import encode
from mnemosyne.stores.sql.connection import Connection, expand_in

_MOST_IDS = 1_000


def drop_vectors(connection: Connection, scope: str, entry_ids: Sequence[str] | None = None) -> None:
    """Delete the vectors of the entries `entry_ids` (None: all entries) of a scope (one session or one world)."""
    where = "DELETE FROM vectors WHERE tenant = ? AND scope = ?"
    if entry_ids is None:
        connection.execute(where, (connection.tenant, scope))
        return
    for first in range(0, len(entry_ids), _MOST_IDS):
        marks, values = expand_in(entry_ids[first : first + _MOST_IDS])
        connection.execute(f"{where} AND entry_id IN ({marks})", (connection.tenant, scope, *values))


def drop_segments(connection: Connection, scope: str, *, leave_mark: bool) -> None:
    """Delete the index rows (segments) of a scope.

    If `leave_mark`, an empty segment is written in their place. It tells other hosts that they must not add rows again that they
    have read before.
    """
    last = connection.execute(
        "SELECT max(ordinal) FROM index_segments WHERE tenant = ? AND scope = ?", (connection.tenant, scope)
    ).fetchone()[0]
    connection.execute("DELETE FROM index_segments WHERE tenant = ? AND scope = ?", (connection.tenant, scope))
    if leave_mark:
        connection.execute(
            "INSERT INTO index_segments (tenant, scope, ordinal, token, marks, body) VALUES (?, ?, ?, ?, ?, NULL)",
            (connection.tenant, scope, (last or 0) + 1, uuid4().hex, encode({})),
        )
