"""Commits a turn that waits for its reply without a reply, because the session continues after it.

Each function runs inside a write transaction that its caller has opened, with the session loaded.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mnemosyne.chains.unanswered_inputs import head_after, mark_unanswered
from mnemosyne.schema.session import SessionHead
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.reading.turns import find_turn
from mnemosyne.stores.sql.sessions import StoredSession
from mnemosyne.stores.sql.writing.messages import insert_messages
from mnemosyne.stores.sql.writing.turn_rows import move_tip


def pending_id(connection: Connection, session: StoredSession, branch_id: str) -> str | None:
    """Return the id of the turn on a branch that waits for its reply, or None if no turn waits."""
    row = connection.execute(
        "SELECT turn_id FROM turns WHERE session = ? AND branch_id = ? AND status = 'prepared'",
        (session.key, branch_id),
    ).fetchone()
    return None if row is None else str(row[0])


def close_pending(
    connection: Connection, session: StoredSession, head: SessionHead, *, unless: Collection[str] = ()
) -> SessionHead:
    """Commit the pending turn after `head` without a reply, and return the head after it.

    If there is no pending turn, or its id is in `unless`, return `head`.
    """
    turn_id = pending_id(connection, session, head.branch_id)
    if turn_id is None or turn_id in unless:
        return head
    record = find_turn(connection, session, turn_id, with_blobs=False)
    connection.post(
        "UPDATE turns SET status = 'committed', draft = NULL WHERE session = ? AND turn_id = ?", (session.key, turn_id)
    )
    insert_messages(connection, session.key, (replace(record, messages=mark_unanswered(record.messages)),))
    move_tip(connection, session.key, head.branch_id, turn_id, head.depth + 1)
    return head_after(head, record)
