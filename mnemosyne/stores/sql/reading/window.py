"""Reads the window of a session in two queries. The window is everything that a turn needs of its session.

A window is read each turn, and each query to a server costs a round trip. Every part of the second query uses an index and stops
when it has enough rows, so the cost depends on the requested amount, not on the length of the session. The functions run inside
a transaction that their caller has opened, and write nothing.
"""

from __future__ import annotations

from typing import Any, TypeVar

from mnemosyne.core.errors import DamagedRecordError
from mnemosyne.schema.document import Meta, ModelUsage, SessionDocument, Task
from mnemosyne.schema.record import WINDOW_USAGES, PathSummary, Prefetch, SessionWindow, TurnRecord
from mnemosyne.schema.session import SessionHead, WindowMessage
from mnemosyne.stores.sql.blobs import (
    REBUILT,
    note_damage,
    part_place,
    place_of,
    prefetch_place,
    read_body,
    state_place,
)
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.read_bodies import ReadMessages
from mnemosyne.stores.sql.reading.turns import (
    TURN_COLUMNS,
    path_summary,
    read_messages,
    read_summary,
    rebuild_head_state,
    record_of,
)
from mnemosyne.stores.sql.sessions import StoredSession, load_head

T = TypeVar("T")

_TURN_WIDTH = TURN_COLUMNS.count(",") + 1
_TURN = f"""SELECT '{{part}}', {", ".join(f"t.{name.strip()}" for name in TURN_COLUMNS.split(","))},
    p.receipt, p.prompt, p.report FROM turns AS t LEFT JOIN papers AS p ON p.turn = t.number WHERE {{which}}"""
_PLACED = """SELECT '{part}', {number}, {turn_id}, {branch_id}, {depth}, NULL, NULL, NULL, NULL, NULL, {body},
    NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM (SELECT {what} FROM {source}) AS found"""
_BARE = {"number": "0", "turn_id": "NULL", "branch_id": "NULL", "depth": "0", "body": "body", "what": "*"}
_IN_PLACE = _BARE | {"turn_id": "turn_id", "branch_id": "branch_id", "depth": "depth"}
_BODY = 9
"""Index of the body column in a row of the second query (without the name of its part). Rows of turns have other columns."""

_WINDOW = " UNION ALL ".join(
    (
        _TURN.format(part="previous", which="t.session = ? AND t.turn_id = ?"),
        _TURN.format(part="pending", which="t.session = ? AND t.branch_id = ? AND t.status = 'prepared'"),
        _PLACED.format(
            part="said",
            source="""turns AS t JOIN messages AS m ON m.session = t.session AND m.branch_id = t.branch_id
                AND m.depth = t.depth WHERE t.session = ? AND t.turn_id = ?""",
            **_BARE
            | {"number": "ord", "turn_id": "turn_id", "branch_id": "branch_id", "depth": "depth", "what": "m.*"},
        ),
        _PLACED.format(
            part="message",
            source="""messages WHERE session = ? AND branch_id = ? AND depth <= ? AND depth > ?
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
            part="task",
            source="parts WHERE session = ? AND kind = 'task' ORDER BY ord",
            **_BARE | {"number": "ord", "turn_id": "part_id"},
        ),
        _PLACED.format(
            part="usage",
            source="parts WHERE session = ? AND kind = 'model_usage' ORDER BY ord DESC LIMIT ?",
            **_BARE | {"number": "ord", "turn_id": "part_id"},
        ),
        _PLACED.format(part="frame", source="documents WHERE session = ?", **_BARE | {"body": "frame"}),
        _PLACED.format(
            part="world",
            source="worlds WHERE tenant = ? AND world_id = ?",
            **_BARE | {"turn_id": "digest", "body": "NULL"},
        ),
    )
)


def read_window(connection: Connection, session_id: str, message_limit: int, branch_id: str | None) -> SessionWindow:
    """Return the window of a session with at most `message_limit` messages.

    Raises SessionNotFoundError or BranchNotFoundError if there is no such session or branch.
    """
    return window_of(connection, *load_head(connection, session_id, branch_id), message_limit)


def window_of(connection: Connection, session: StoredSession, head: SessionHead, message_limit: int) -> SessionWindow:
    """Return the window of a session at `head`, with at most `message_limit` messages."""
    key, here = session.key, (session.key, head.branch_id)
    newest = (*here, head.lineage[0].upto_depth)
    kept = connection.bodies.scopes.find_messages(session.scope, session.mark, head.branch_id, message_limit)
    after = (-1, max(message_limit, 0)) if kept is None else (kept.depth, max(message_limit, kept.limit))
    parameters = (
        *(key, head.turn_id),
        *here,
        *(key, head.turn_id),
        *(*newest, *after),
        *newest,
        *here,
        *here,
        key,
        *(key, WINDOW_USAGES),
        key,
        *(connection.tenant, head.world_id),
    )
    parts: dict[str, list[tuple[Any, ...]]] = {}
    for part, *row in connection.execute(_WINDOW, parameters):
        parts.setdefault(part, []).append(tuple(row))
    late = parts.get("prefetch")
    if head.turn_id is not None and "previous" not in parts:
        error = DamagedRecordError(connection.shown, "", "the head of the branch names it, and it does not exist")
        note_damage(connection, error, place_of("turns", "row", key, head.turn_id))
    return SessionWindow(
        head=head,
        messages=_messages(connection, session, head, message_limit, kept, parts.get("message", [])),
        state=_state(connection, session, head, parts.get("state", [])),
        previous=_turn(connection, session, parts, "previous", "said"),
        pending=_turn(connection, session, parts, "pending", ""),
        prefetch=None if late is None else _prefetch(connection, key, head.branch_id, late[0][_BODY]),
        summary=_summary(connection, key, head, parts.get("summary", [])),
        tasks=_items(connection, key, "task", _in_order(parts, "task"), Task),
        usages=_items(connection, key, "model_usage", _in_order(parts, "usage"), ModelUsage),
        meta=_meta(connection, key, parts.get("frame", [])),
        world_digest=next((row[1] for row in parts.get("world", [])), None),
    )


def _meta(connection: Connection, key: int, rows: list[tuple[Any, ...]]) -> Meta | None:
    place = place_of("documents", "frame", key)
    effect = "The turn was made without the locale and the user of its document"
    frame = read_body(connection, rows[0][_BODY], SessionDocument, place, effect) if rows else None
    return None if frame is None else frame.meta


def _in_order(parts: dict[str, list[tuple[Any, ...]]], part: str) -> list[tuple[Any, ...]]:
    """Return rows in the order of their places, because SQL guarantees no order for the parts of a union."""
    return sorted(parts.get(part, []), key=lambda row: row[0])


def _items(connection: Connection, key: int, kind: str, rows: list[tuple[Any, ...]], what: type[T]) -> tuple[T, ...]:
    found = (read_body(connection, row[_BODY], what, part_place(key, row[1], kind)) for row in rows)
    return tuple(item for item in found if item is not None)


def _state(
    connection: Connection, session: StoredSession, head: SessionHead, rows: list[tuple[Any, ...]]
) -> dict[str, Any]:
    """Return the state at the head; if its row is damaged or missing, rebuilt from snapshots and ops."""
    place = state_place(session.key, head.branch_id)
    state = read_body(connection, rows[0][_BODY] if rows else None, dict, place, REBUILT)
    return rebuild_head_state(connection, session, head) if state is None else state


def _prefetch(connection: Connection, key: int, branch_id: str, data: Any) -> Prefetch | None:
    return read_body(connection, data, Prefetch, prefetch_place(key, branch_id), "It is recalled again")


def _turn(
    connection: Connection,
    session: StoredSession,
    parts: dict[str, list[tuple[Any, ...]]],
    part: str,
    messages_part: str,
) -> TurnRecord | None:
    if part not in parts:
        return None
    row, *_ = parts[part]
    said = [(each[_BODY], *each[1:4], each[0]) for each in _in_order(parts, messages_part)]
    try:
        return record_of(connection, session, row[:_TURN_WIDTH], said, row[_TURN_WIDTH:])
    except DamagedRecordError as error:
        note_damage(connection, error, place_of("turns", "row", session.key, row[1]))
        return None


def _messages(
    connection: Connection,
    session: StoredSession,
    head: SessionHead,
    limit: int,
    kept: ReadMessages | None,
    found: list[tuple[Any, ...]],
) -> tuple[WindowMessage, ...]:
    """Return the newest messages of a path: those of the rows `found`, and older ones, which are `kept` or read."""
    found = sorted(found, key=lambda row: (row[3], row[0]), reverse=True)
    newest = list(read_messages(connection, session.key, [(row[_BODY], *row[1:4], row[0]) for row in found]))
    number = len(found)
    for span in () if kept is not None else head.lineage[1:]:
        if len(newest) >= limit:
            break
        rows = connection.execute(
            """SELECT body, turn_id, branch_id, depth, ord FROM messages
                WHERE session = ? AND branch_id = ? AND depth <= ? ORDER BY depth DESC, ord DESC LIMIT ?""",
            (session.key, span.branch_id, span.upto_depth, limit - len(newest)),
        ).fetchall()
        number += len(rows)
        newest.extend(read_messages(connection, session.key, rows))
    newest.reverse()
    messages = tuple(newest) if kept is None else (*kept.messages, *newest)
    if len(newest) == number and (kept is None or newest):
        # Damaged messages are read, and noted, again.
        most = limit if kept is None else max(limit, kept.limit)
        read = ReadMessages(
            branch_id=head.branch_id, depth=head.depth, limit=most, messages=messages[max(len(messages) - most, 0) :]
        )
        connection.bodies.scopes.keep_messages(session.scope, session.mark, read)
    return messages[max(len(messages) - limit, 0) :]


def _summary(connection: Connection, key: int, head: SessionHead, found: list[tuple[Any, ...]]) -> PathSummary | None:
    """Return the newest summary of the path; older branches are queried only if the newest has no summary row."""
    if not found:
        return read_summary(connection, key, head.lineage[1:])[0]
    body, place = found[0][_BODY], found[0][1:4]
    newest = path_summary(connection, key, (body, *place))
    return newest if newest is not None or body is None else read_summary(connection, key, head.lineage)[0]
