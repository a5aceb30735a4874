"""Finds the turns with system messages on a path, without reading the whole path.

Recall (the search of memory) may not find a system message. So only the few messages that recall may not find are read here. The
function runs inside a transaction that its caller has opened, and writes nothing.
"""

from __future__ import annotations

from mnemosyne.schema.session import Message, Role
from mnemosyne.stores.sql.blobs import message_place, read_body
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.sessions import load_head


def read_depths(connection: Connection, session_id: str, branch_id: str | None, after_depth: int) -> tuple[int, ...]:
    """Return the depths, ascending, of the turns on a branch's path after `after_depth` that contain a system message.

    A damaged message does not count.
    """
    session, head = load_head(connection, session_id, branch_id)
    found = set[int]()
    for span in head.lineage:
        rows = connection.execute(
            """SELECT turn_id, ord, branch_id, depth, body FROM messages
                WHERE session = ? AND branch_id = ? AND depth > ? AND depth <= ? AND recalled = 0""",
            (session.key, span.branch_id, after_depth, span.upto_depth),
        ).fetchall()
        for turn_id, order, branch, depth, body in rows:
            message = read_body(connection, body, Message, message_place(session.key, turn_id, order, branch, depth))
            if message is not None and message.role is Role.SYSTEM:
                found.add(depth)
    return tuple(sorted(found))
