"""Finds the turns with system messages on a path, without reading the whole path.

The tables mark every message that recall (the search of memory) can find. System messages never have this mark, so only the few
messages without the mark are read. The function runs inside a transaction that its caller has opened, and writes nothing.
"""

from __future__ import annotations

from mnemosyne.schema.session import Message, Role
from mnemosyne.stores.sql.blobs import message_place, read_body
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.sessions import load_head


def read_depths(connection: Connection, session_id: str, branch_id: str | None, after_depth: int) -> tuple[int, ...]:
    """Return the depths of the turns that contain a system message, ascending. Only committed turns on the path of the branch
    `branch_id` (None: the active branch) with a depth greater than `after_depth` count.

    A damaged message is ignored.
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
