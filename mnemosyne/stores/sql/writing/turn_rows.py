"""Writes and deletes rows of turns, and moves the head of a branch.

A turn is written in the same way whether it was played or is one of thousands that are imported. Each function runs
inside a write transaction that its caller has opened, with the session loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mnemosyne.chains.turn_tree import Ops
from mnemosyne.core.codec import encode, format_time
from mnemosyne.core.errors import UnreadableError
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import TurnStatus
from mnemosyne.stores.sql.blobs import blob_place, keep_blob, seal, turn_place
from mnemosyne.stores.sql.connection import Connection, expand_in

_TURN_COLUMNS = (
    "session, turn_id, branch_id, depth, parent_id, kind, status, fingerprint, created_at, anchors, ops, draft, plan, "
    "origin_id"
)
_AT_ONCE = 512


def insert_turn(connection: Connection, key: int, record: TurnRecord) -> None:
    """Write a turn. If the turn is not committed, its messages are written as its draft. The messages of a committed turn are
    separate rows, which this function does not write.
    """
    row = _row(key, record)
    if record.receipt is None and record.prompt is None:
        connection.insert("turns", _TURN_COLUMNS, [row])
        return
    signs = ", ".join("?" * len(row))
    (number,) = connection.execute(
        f"INSERT INTO turns ({_TURN_COLUMNS}) VALUES ({signs}) RETURNING number", row
    ).fetchone()
    blobs = [
        None if blob is None else keep_blob(connection, blob, blob_place(column, key, record.turn_id))
        for column, blob in (("receipt", record.receipt), ("prompt", record.prompt))
    ]
    connection.insert("papers", "turn, receipt, prompt", [(number, *blobs)])


def insert_bare_turns(connection: Connection, key: int, records: Sequence[TurnRecord]) -> None:
    """Write committed turns, without receipt and prompt."""
    connection.insert("turns", _TURN_COLUMNS, [_row(key, record) for record in records])


def _row(key: int, record: TurnRecord) -> tuple[object, ...]:
    waiting = record.status is not TurnStatus.COMMITTED
    names = _names(record)

    def body(column: str, value: Any) -> bytes:
        return seal(encode(value), turn_place(column, key, names))

    return (
        key,
        *names,
        body("anchors", record.anchors) if record.anchors else None,
        body("ops", record.ops) if record.ops else None,
        body("draft", record.messages) if waiting else None,
        None if record.plan is None else body("plan", record.plan),
        record.origin_id,
    )


def _names(record: TurnRecord) -> tuple[Any, ...]:
    return (
        record.turn_id,
        record.branch_id,
        record.depth,
        record.parent_id,
        record.kind.value,
        record.status.value,
        record.fingerprint,
        None if record.created_at is None else format_time(record.created_at),
    )


def sealed_ops(key: int, record: TurnRecord, ops: Ops) -> bytes | None:
    """Return the ops (changes of the state) of a turn as a stored body, or None if there are none."""
    return seal(encode(ops), turn_place("ops", key, _names(record))) if ops else None


def forget_turn(connection: Connection, key: int, turn_id: str) -> None:
    """Delete a turn that is not committed, so that its id can be used again."""
    connection.post(
        "DELETE FROM papers WHERE turn = (SELECT number FROM turns WHERE session = ? AND turn_id = ?)", (key, turn_id)
    )
    connection.post("DELETE FROM turns WHERE session = ? AND turn_id = ?", (key, turn_id))


def move_tip(connection: Connection, key: int, branch_id: str, turn_id: str | None, depth: int) -> None:
    """Move the head of a branch to the turn `turn_id` at `depth`."""
    connection.post(
        "UPDATE branches SET head_turn = ?, head_depth = ? WHERE session = ? AND branch_id = ?",
        (turn_id, depth, key, branch_id),
    )


def abandon_pending(connection: Connection, key: int, branch_id: str) -> None:
    """Mark the pending turn of a branch as abandoned, if there is one."""
    connection.post(
        "UPDATE turns SET status = 'abandoned' WHERE session = ? AND branch_id = ? AND status = 'prepared'",
        (key, branch_id),
    )


def turn_status(connection: Connection, key: int, turn_id: str) -> TurnStatus | None:
    """Return the status of a turn, or None if there is no turn with this id."""
    row = connection.execute("SELECT status FROM turns WHERE session = ? AND turn_id = ?", (key, turn_id)).fetchone()
    return None if row is None else _status(turn_id, row[0])


def turn_statuses(connection: Connection, key: int, turn_ids: Sequence[str]) -> dict[str, TurnStatus]:
    """Return the status of each of these turns. Unknown turns are left out."""
    found: dict[str, TurnStatus] = {}
    for start in range(0, len(turn_ids), _AT_ONCE):
        signs, values = expand_in(turn_ids[start : start + _AT_ONCE])
        rows = connection.execute(
            f"SELECT turn_id, status FROM turns WHERE session = ? AND turn_id IN ({signs})", (key, *values)
        )
        found.update((turn_id, _status(turn_id, status)) for turn_id, status in rows)
    return found


def _status(turn_id: str, word: str) -> TurnStatus:
    try:
        return TurnStatus(word)
    except ValueError as error:
        raise UnreadableError(f"turn {turn_id!r}: {error}") from None
