"""Reads turns: records, paths, and rebuilt states.

Every query uses an index, and runs on a connection that never waits for a writer. Each function runs inside a
transaction that its caller has opened; none writes.

Cost: the rows of a lineage are read span by span, newest first, until there are enough. So the cost grows with the
requested amount and the number of forks on the path, never with the length of the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mnemosyne.chains.json_patch import replay_ops
from mnemosyne.chains.turn_tree import BASE_BRANCH, Ops
from mnemosyne.core.codec import decode, decode_tree, parse_time
from mnemosyne.core.errors import TurnNotFoundError, UnreadableError
from mnemosyne.schema.document import Summary
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.record import PathSummary, TurnRecord
from mnemosyne.schema.session import (
    BranchSpan,
    Message,
    TurnKind,
    TurnStatus,
    WindowMessage,
)
from mnemosyne.stores.sql.blobs import unpack_blob
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.sessions import StoredSession, committed_place, load_head, load_session, read_lineage

TURN_COLUMNS = (
    "number, turn_id, branch_id, depth, parent_id, kind, status, fingerprint, created_at, anchors, ops, draft, plan"
)
_TURN = f"SELECT {TURN_COLUMNS} FROM turns "


def read_path(connection: Connection, key: int, lineage: tuple[BranchSpan, ...]) -> tuple[WindowMessage, ...]:
    """Return all messages on a path, oldest first."""
    said: list[WindowMessage] = []
    for span in reversed(lineage):
        rows = connection.execute(
            """SELECT body, turn_id, branch_id, depth FROM messages
                WHERE session = ? AND branch_id = ? AND depth <= ? ORDER BY depth, ord""",
            (key, span.branch_id, span.upto_depth),
        )
        said.extend(decode_window_message(row) for row in rows)
    return tuple(said)


def decode_window_message(row: tuple[bytes, str, str, int]) -> WindowMessage:
    """Return a message with its place from a row of `body, turn_id, branch_id, depth`."""
    body, turn_id, branch_id, depth = row
    return WindowMessage(message=decode(body, Message), turn_id=turn_id, branch_id=branch_id, depth=depth)


def read_summary(connection: Connection, key: int, lineage: tuple[BranchSpan, ...]) -> tuple[PathSummary | None, bool]:
    """Return the newest rolling summary on a path, and whether the path has a summary row at all."""
    for span in lineage:
        row = connection.execute(
            """SELECT body, turn_id, branch_id, depth FROM summaries
                WHERE session = ? AND branch_id = ? AND depth <= ? ORDER BY depth DESC LIMIT 1""",
            (key, span.branch_id, span.upto_depth),
        ).fetchone()
        if row is not None:
            return path_summary(row), True
    return None, False


def path_summary(row: tuple[bytes | None, str, str, int]) -> PathSummary | None:
    """Return a summary from a row of `body, turn_id, branch_id, depth`; None if the row says that there is none any
    more.
    """
    body, turn_id, branch_id, depth = row
    if body is None:
        return None
    return PathSummary(turn_id=turn_id, branch_id=branch_id, depth=depth, summary=decode(body, Summary))


def read_turn(connection: Connection, session_id: str, turn_id: str) -> TurnRecord:
    """Return one turn with everything stored of it; SessionNotFoundError, TurnNotFoundError."""
    return find_turn(connection, load_session(connection, session_id), turn_id)


def find_turn(connection: Connection, session: StoredSession, turn_id: str) -> TurnRecord:
    """Return one turn of a session with everything stored of it; TurnNotFoundError."""
    row = connection.execute(_TURN + "WHERE session = ? AND turn_id = ?", (session.key, turn_id)).fetchone()
    if row is None:
        raise TurnNotFoundError(session.session_id, turn_id)
    return _record(connection, session, row, with_blobs=True)


def read_turns(
    connection: Connection, session_id: str, limit: int, branch_id: str | None, before_depth: int | None
) -> tuple[TurnRecord, ...]:
    """Return the newest committed turns on the path, oldest first, without prompt, receipt and report."""
    session, head = load_head(connection, session_id, branch_id)
    newest: list[TurnRecord] = []
    for span in head.lineage:
        if len(newest) >= limit:
            break
        upto = span.upto_depth if before_depth is None else min(span.upto_depth, before_depth - 1)
        rows = connection.execute(
            _TURN
            + "WHERE session = ? AND branch_id = ? AND depth <= ? AND status = 'committed' ORDER BY depth DESC LIMIT ?",
            (session.key, span.branch_id, upto, limit - len(newest)),
        ).fetchall()
        newest.extend(_record(connection, session, row, with_blobs=False) for row in rows)
    return tuple(reversed(newest))


def _record(connection: Connection, session: StoredSession, row: tuple[Any, ...], *, with_blobs: bool) -> TurnRecord:
    blobs = (None, None, None)
    if with_blobs:
        found = connection.execute("SELECT receipt, prompt, report FROM papers WHERE turn = ?", (row[0],)).fetchone()
        blobs = found or blobs
    bodies: list[bytes] = []
    if row[6] == TurnStatus.COMMITTED:
        rows = connection.execute(
            "SELECT body FROM messages WHERE session = ? AND branch_id = ? AND depth = ? ORDER BY ord",
            (session.key, row[2], row[3]),
        )
        bodies = [body for (body,) in rows]
    return record_of(session, row, bodies, blobs)


def record_of(
    session: StoredSession, row: tuple[Any, ...], bodies: Sequence[bytes], blobs: tuple[bytes | None, ...]
) -> TurnRecord:
    """Return a turn from its row (`TURN_COLUMNS`), the bodies of its messages, and receipt, prompt and report.

    A pending turn has its messages in the row. UnreadableError for a row that holds no turn.
    """
    try:
        return _turn_of(session, row, bodies, blobs)
    except UnreadableError:
        raise
    except (ValueError, TypeError) as error:
        raise UnreadableError(f"The row of turn {row[1]!r} of session {session.session_id!r}: {error}") from None


def _turn_of(
    session: StoredSession, row: tuple[Any, ...], bodies: Sequence[bytes], blobs: tuple[bytes | None, ...]
) -> TurnRecord:
    _, turn_id, branch_id, depth, parent_id, kind, status, fingerprint, at, anchors, ops, draft, plan = row
    if status == TurnStatus.COMMITTED:
        messages = tuple(decode(body, Message) for body in bodies)
    else:
        messages = decode(draft, tuple[Message, ...])
    return TurnRecord(
        turn_id=turn_id,
        session_id=session.session_id,
        branch_id=branch_id,
        depth=depth,
        parent_id=parent_id,
        kind=TurnKind(kind),
        status=TurnStatus(status),
        messages=messages,
        fingerprint=fingerprint,
        plan=_tree(plan),
        receipt=_decode_blob(blobs[0]),
        prompt=_decode_blob(blobs[1]),
        report=_decode_blob(blobs[2]),
        anchors=_tree(anchors) or EMPTY,
        ops=() if ops is None else decode(ops, Ops),
        created_at=None if at is None else parse_time(at),
    )


def _decode_blob(data: bytes | None) -> dict[str, Any] | None:
    return None if data is None else decode_tree(unpack_blob(data))


def _tree(data: bytes | None) -> dict[str, Any] | None:
    return None if data is None else decode_tree(data)


def read_state(connection: Connection, session_id: str, turn_id: str | None) -> dict[str, Any]:
    """Return the state as it was after a committed turn (None = before the first); SessionNotFoundError,
    TurnNotFoundError.
    """
    return rebuild_state(connection, load_session(connection, session_id), turn_id)[0]


def rebuild_state(connection: Connection, session: StoredSession, turn_id: str | None) -> tuple[dict[str, Any], int]:
    """Return the state after a committed turn (None = before the first) and how many changing turns were replayed.

    It starts from the nearest snapshot on the path, so the replay is short whatever the length of the session.
    """
    lineage: tuple[BranchSpan, ...] = ()
    if turn_id is not None:
        branch_id, depth = committed_place(connection, session, turn_id)
        lineage = read_lineage(connection, session.key, branch_id, depth)
    logs: list[bytes] = []
    for span in lineage:
        snapshot = connection.execute(
            """SELECT depth, state FROM snapshots WHERE session = ? AND branch_id = ? AND depth <= ?
                ORDER BY depth DESC LIMIT 1""",
            (session.key, span.branch_id, span.upto_depth),
        ).fetchone()
        rows = connection.execute(
            """SELECT ops FROM turns WHERE session = ? AND branch_id = ? AND depth <= ? AND depth > ?
                AND status = 'committed' AND ops IS NOT NULL ORDER BY depth DESC""",
            (session.key, span.branch_id, span.upto_depth, -1 if snapshot is None else snapshot[0]),
        )
        logs.extend(ops for (ops,) in rows)
        if snapshot is not None:
            base = snapshot[1]
            break
    else:
        base = connection.execute(
            "SELECT state FROM snapshots WHERE session = ? AND branch_id = ? AND depth = 0",
            (session.key, BASE_BRANCH),
        ).fetchone()[0]
    ops = [op for log in reversed(logs) for op in decode(log, Ops)]
    return (replay_ops(decode_tree(base), ops) if ops else decode_tree(base)), len(logs)
