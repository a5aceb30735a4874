"""Reads outlines of all sessions for lists of sessions. Runs inside a transaction that the caller has opened."""

from __future__ import annotations

from datetime import datetime

from mnemosyne.core.codec import parse_time
from mnemosyne.core.errors import UnreadableError
from mnemosyne.schema.session import SessionOutline
from mnemosyne.stores.sql.connection import Connection

_OUTLINES = """SELECT s.session_id, s.user_id, s.active_branch,
        coalesce(a.active_at, t.created_at, s.created_at)
    FROM sessions AS s LEFT JOIN archives AS a ON a.session = s.key
        LEFT JOIN branches AS b ON b.session = s.key AND b.branch_id = s.active_branch
        LEFT JOIN turns AS t ON t.session = s.key AND t.turn_id = b.head_turn
    WHERE s.tenant = ? ORDER BY s.session_id"""


def read_outlines(connection: Connection) -> tuple[SessionOutline, ...]:
    """Return an outline of each session of the tenant, sorted by id."""
    rows = connection.execute(_OUTLINES, (connection.tenant,)).fetchall()
    return tuple(
        SessionOutline(session_id=name, user_id=user_id, at=_read_time(at), is_archived=active_branch == "")
        for name, user_id, active_branch, at in rows
    )


def _read_time(text: str | None) -> datetime | None:
    try:
        return None if text is None else parse_time(text)
    except UnreadableError:
        return None
