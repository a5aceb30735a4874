"""Reads a window (everything that a turn needs of a session) in two queries.

A window is read each turn, and each query to a server costs a round trip. It runs inside a transaction that its caller
has opened, and writes nothing. Every part of the second query uses an index and stops when it has enough, so its cost
grows with the requested amount, never with the length of the session.
"""

from __future__ import annotations

from typing import Any

from mnemosyne.core.codec import decode, decode_tree
from mnemosyne.schema.document import ModelUsage, Task
from mnemosyne.schema.record import WINDOW_USAGES, PathSummary, Prefetch, SessionWindow, TurnRecord
from mnemosyne.schema.session import SessionHead, WindowMessage
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.reading.turns import (
    TURN_COLUMNS,
    decode_window_message,
    path_summary,
    read_summary,
    record_of,
)
from mnemosyne.stores.sql.sessions import StoredSession, load_head

_TURN_WIDTH = TURN_COLUMNS.count(",") + 1
_TURN = f"""SELECT '{{part}}', {", ".join(f"t.{name.strip()}" for name in TURN_COLUMNS.split(","))},
    p.receipt, p.prompt, p.report FROM turns AS t LEFT JOIN papers AS p ON p.turn = t.number WHERE {{which}}"""
_PLACED = """SELECT '{part}', {number}, {turn_id}, {branch_id}, {depth}, NULL, NULL, NULL, NULL, NULL, {body},
    NULL, NULL, NULL, NULL, NULL, NULL FROM (SELECT {what} FROM {source}) AS found"""
_BARE = {"number": "0", "turn_id": "NULL", "branch_id": "NULL", "depth": "0", "body": "body", "what": "*"}
_IN_PLACE = _BARE | {"turn_id": "turn_id", "branch_id": "branch_id", "depth": "depth"}
_BODY = 9
"""The column of a body that is not a turn's, in a row of the second query without its part name."""

_WINDOW = " UNION ALL ".join(
    (
        _TURN.format(part="previous", which="t.session = ? AND t.turn_id = ?"),
        _TURN.format(part="pending", which="t.session = ? AND t.branch_id = ? AND t.status = 'prepared'"),
        _PLACED.format(
            part="said",
            source="""turns AS t JOIN messages AS m ON m.session = t.session AND m.branch_id = t.branch_id
                AND m.depth = t.depth WHERE t.session = ? AND t.turn_id = ?""",
            **_BARE | {"number": "ord", "what": "m.ord, m.body"},
        ),
        _PLACED.format(
            part="message",
            source="""messages WHERE session = ? AND branch_id = ? AND depth <= ?
                ORDER BY depth DESC, ord DESC LIMIT ?""",
            **_IN_PLACE | {"number": "ord"},
        ),
        _PLACED.format(
            part="summary",
            source="summaries WHERE session = ? AND branch_id = ? AND depth <= ? ORDER BY depth DESC LIMIT 1",
            **_IN_PLACE,
        ),
        _PLACED.format(
            part="state", source="branch_states WHERE session = ? AND branch_id = ?", **_BARE | {"body": "state"}
        ),
        _PLACED.format(part="prefetch", source="prefetches WHERE session = ? AND branch_id = ?", **_BARE),
        _PLACED.format(
            part="task", source="parts WHERE session = ? AND kind = 'task' ORDER BY ord", **_BARE | {"number": "ord"}
        ),
        _PLACED.format(
            part="usage",
            source="parts WHERE session = ? AND kind = 'model_usage' ORDER BY ord DESC LIMIT ?",
            **_BARE | {"number": "ord"},
        ),
    )
)


def read_window(connection: Connection, session_id: str, message_limit: int, branch_id: str | None) -> SessionWindow:
    """Return the window of a session; SessionNotFoundError, BranchNotFoundError."""
    session, head = load_head(connection, session_id, branch_id)
    key, here = session.key, (session.key, head.branch_id)
    newest = (*here, head.lineage[0].upto_depth)
    parameters = (
        *(key, head.turn_id),
        *here,
        *(key, head.turn_id),
        *(*newest, max(message_limit, 0)),
        *newest,
        *here,
        *here,
        key,
        *(key, WINDOW_USAGES),
    )
    parts: dict[str, list[tuple[Any, ...]]] = {}
    for part, *row in connection.execute(_WINDOW, parameters):
        parts.setdefault(part, []).append(tuple(row))
    late = parts.get("prefetch")
    return SessionWindow(
        head=head,
        messages=_messages(connection, key, head, message_limit, parts.get("message", [])),
        state=decode_tree(parts["state"][0][_BODY]),
        previous=_turn(session, parts, "previous", "said"),
        pending=_turn(session, parts, "pending", ""),
        prefetch=None if late is None else decode(late[0][_BODY], Prefetch),
        summary=_summary(connection, key, head, parts.get("summary", [])),
        tasks=tuple(decode(body, Task) for body in _bodies(parts, "task")),
        usages=tuple(decode(body, ModelUsage) for body in _bodies(parts, "usage")),
    )


def _bodies(parts: dict[str, list[tuple[Any, ...]]], part: str) -> list[bytes]:
    """Return bodies in the order of their places, because SQL guarantees no order for the parts of a union."""
    return [row[_BODY] for row in sorted(parts.get(part, []), key=lambda row: row[0])]


def _turn(
    session: StoredSession, parts: dict[str, list[tuple[Any, ...]]], part: str, messages_part: str
) -> TurnRecord | None:
    if part not in parts:
        return None
    (row,) = parts[part]
    return record_of(session, row[:_TURN_WIDTH], _bodies(parts, messages_part), row[_TURN_WIDTH:])


def _messages(
    connection: Connection, key: int, head: SessionHead, limit: int, found: list[tuple[Any, ...]]
) -> tuple[WindowMessage, ...]:
    found = sorted(found, key=lambda row: (row[3], row[0]), reverse=True)
    newest = [decode_window_message((row[_BODY], *row[1:4])) for row in found]
    for span in head.lineage[1:]:
        if len(newest) >= limit:
            break
        rows = connection.execute(
            """SELECT body, turn_id, branch_id, depth FROM messages
                WHERE session = ? AND branch_id = ? AND depth <= ? ORDER BY depth DESC, ord DESC LIMIT ?""",
            (key, span.branch_id, span.upto_depth, limit - len(newest)),
        )
        newest.extend(decode_window_message(row) for row in rows)
    return tuple(reversed(newest))


def _summary(connection: Connection, key: int, head: SessionHead, found: list[tuple[Any, ...]]) -> PathSummary | None:
    """Return the newest summary of the path; older branches are queried only if the newest has no summary row."""
    if found:
        return path_summary((found[0][_BODY], *found[0][1:4]))
    return read_summary(connection, key, head.lineage[1:])[0]
