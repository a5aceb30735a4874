"""Reads turns of a SQL store: their records, the messages on a path, and rebuilt states.

Every query uses an index, and runs on a connection that never waits for a writer. Each function runs inside a
transaction that its caller has opened; none writes.

A lineage is the path to a head as spans of branches. The rows of a lineage are read span by span, newest first, until there
are enough. So the cost grows with the requested amount and the number of forks on the path, never with the length of the
session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mnemosyne.chains.json_patch import replay_ops
from mnemosyne.chains.turn_tree import BASE_BRANCH, SNAPSHOT_EVERY, Ops
from mnemosyne.core.codec import parse_time
from mnemosyne.core.errors import DamagedRecordError, TurnNotFoundError
from mnemosyne.schema.document import Summary
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.record import PathSummary, TurnRecord
from mnemosyne.schema.session import (
    BranchSpan,
    Message,
    SessionHead,
    TurnKind,
    TurnStatus,
    WindowMessage,
)
from mnemosyne.stores.sql.blobs import (
    blob_place,
    load_body,
    message_place,
    note_damage,
    place_of,
    read_blob,
    read_body,
    read_tree,
    snapshot_place,
    state_place,
    summary_place,
    turn_place,
)
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.sessions import StoredSession, committed_place, load_head, load_session, read_lineage

TURN_COLUMNS = (
    "number, turn_id, branch_id, depth, parent_id, kind, status, fingerprint, created_at, anchors, ops, draft, plan, "
    "origin_id"
)
_TURN = f"SELECT {TURN_COLUMNS} FROM turns "


def read_path(connection: Connection, key: int, lineage: tuple[BranchSpan, ...]) -> tuple[WindowMessage, ...]:
    """Return all messages on a path, oldest first."""
    said: list[WindowMessage] = []
    for span in reversed(lineage):
        rows = connection.execute(
            """SELECT body, turn_id, branch_id, depth, ord FROM messages
                WHERE session = ? AND branch_id = ? AND depth <= ? ORDER BY depth, ord""",
            (key, span.branch_id, span.upto_depth),
        ).fetchall()
        said.extend(read_messages(connection, key, rows))
    return tuple(said)


def read_messages(connection: Connection, key: int, rows: Iterable[tuple[Any, ...]]) -> Iterator[WindowMessage]:
    """Yield the messages in `rows`, with their turns. A row is `body, turn_id, branch_id, depth, ord`. Damaged messages are left
    out.
    """
    for body, turn_id, branch_id, depth, order in rows:
        message = read_body(connection, body, Message, message_place(key, turn_id, order, branch_id, depth))
        if message is not None:
            yield WindowMessage(message=message, turn_id=turn_id, branch_id=branch_id, depth=depth)


def read_summary(connection: Connection, key: int, lineage: tuple[BranchSpan, ...]) -> tuple[PathSummary | None, bool]:
    """Return (summary, has_row): the newest readable rolling summary on a path (None: there is none), and whether the path has
    any summary row.
    """
    for span in lineage:
        upto: int | None = span.upto_depth
        while upto is not None:
            row = connection.execute(
                """SELECT body, turn_id, branch_id, depth FROM summaries
                    WHERE session = ? AND branch_id = ? AND depth <= ? ORDER BY depth DESC LIMIT 1""",
                (key, span.branch_id, upto),
            ).fetchone()
            if row is None:
                break
            if row[0] is None:
                return None, True
            if (found := path_summary(connection, key, row)) is not None:
                return found, True
            upto = row[3] - 1
    return None, False


def path_summary(connection: Connection, key: int, row: tuple[bytes | None, str, str, int]) -> PathSummary | None:
    """Return the summary in a row of `body, turn_id, branch_id, depth`.

    Return None if the row has no body, which marks the end of summaries, or if the body cannot be read.
    """
    body, turn_id, branch_id, depth = row
    if body is None:
        return None
    place = summary_place(key, turn_id, branch_id, depth)
    summary = read_body(connection, body, Summary, place, "An older one is used, or the messages themselves")
    if summary is None:
        return None
    return PathSummary(turn_id=turn_id, branch_id=branch_id, depth=depth, summary=summary)


def read_turn(connection: Connection, session_id: str, turn_id: str) -> TurnRecord:
    """Return one turn with everything that is stored of it.

    Raises SessionNotFoundError or TurnNotFoundError if there is no such session or turn.
    """
    return find_turn(connection, load_session(connection, session_id), turn_id)


def find_turn(connection: Connection, session: StoredSession, turn_id: str, *, with_blobs: bool = True) -> TurnRecord:
    """Return one turn of a session with everything that is stored of it.

    If `with_blobs` is false, receipt, prompt and report are left out. Raises TurnNotFoundError if there is no such
    turn.
    """
    row = connection.execute(_TURN + "WHERE session = ? AND turn_id = ?", (session.key, turn_id)).fetchone()
    if row is None:
        raise TurnNotFoundError(session.session_id, turn_id)
    return _record(connection, session, row, with_blobs=with_blobs)


def read_turns(
    connection: Connection, session_id: str, limit: int, branch_id: str | None, before_depth: int | None
) -> tuple[TurnRecord, ...]:
    """Return the newest `limit` committed turns on a branch's path, oldest first, without prompt, receipt and report.

    If `before_depth` is not None, only turns before this depth are returned.
    """
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
        newest.extend(_records(connection, session, rows))
    return tuple(reversed(newest))


def _records(connection: Connection, session: StoredSession, rows: Iterable[tuple[Any, ...]]) -> Iterator[TurnRecord]:
    for row in rows:
        try:
            yield _record(connection, session, row, with_blobs=False)
        except DamagedRecordError as error:
            note_damage(connection, error, place_of("turns", "row", session.key, row[1]))


def _record(connection: Connection, session: StoredSession, row: tuple[Any, ...], *, with_blobs: bool) -> TurnRecord:
    blobs = (None, None, None)
    if with_blobs:
        found = connection.execute("SELECT receipt, prompt, report FROM papers WHERE turn = ?", (row[0],)).fetchone()
        blobs = found or blobs
    said: list[tuple[Any, ...]] = []
    if row[6] == TurnStatus.COMMITTED:
        said = connection.execute(
            """SELECT body, turn_id, branch_id, depth, ord FROM messages
                WHERE session = ? AND branch_id = ? AND depth = ? ORDER BY ord""",
            (session.key, row[2], row[3]),
        ).fetchall()
    return record_of(connection, session, row, said, blobs)


def record_of(
    connection: Connection,
    session: StoredSession,
    row: tuple[Any, ...],
    said: Sequence[tuple[Any, ...]],
    blobs: tuple[bytes | None, ...],
) -> TurnRecord:
    """Return the record of a turn from its row (`TURN_COLUMNS`), the rows of its messages (`said`), and `blobs`
    (receipt, prompt and report).

    A pending turn has its messages in its own row. A damaged part becomes a `LostTree`, and a damaged message is left
    out; both are noted. Raises DamagedRecordError if the row is not a valid turn.
    """
    try:
        return _turn_of(connection, session, row, said, blobs)
    except (ValueError, TypeError) as error:
        what = f"The row of turn {row[1]!r} of session {session.session_id!r}"
        raise DamagedRecordError(connection.shown, what, str(error)) from None


def _turn_of(
    connection: Connection,
    session: StoredSession,
    row: tuple[Any, ...],
    said: Sequence[tuple[Any, ...]],
    blobs: tuple[bytes | None, ...],
) -> TurnRecord:
    _, turn_id, branch_id, depth, parent_id, kind, status, fingerprint, at, anchors, ops, draft, plan, origin_id = row

    def place(column: str) -> str:
        return turn_place(column, session.key, row[1:])

    def blob(column: str, data: bytes | None) -> Any:
        return read_blob(connection, data, blob_place(column, session.key, turn_id))

    if status == TurnStatus.COMMITTED:
        messages = tuple(placed.message for placed in read_messages(connection, session.key, said))
    else:
        messages = load_body(connection, draft, tuple[Message, ...], place("draft"))
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
        plan=read_tree(connection, plan, place("plan")),
        receipt=blob("receipt", blobs[0]),
        prompt=blob("prompt", blobs[1]),
        report=blob("report", blobs[2]),
        anchors=EMPTY if anchors is None else read_tree(connection, anchors, place("anchors")),
        ops=() if ops is None else read_body(connection, ops, Ops, place("ops")) or (),
        created_at=None if at is None else parse_time(at),
        origin_id=origin_id,
    )


def read_state(connection: Connection, session_id: str, turn_id: str | None) -> dict[str, Any]:
    """Return the state after a committed turn (None: before the first turn).

    Raises SessionNotFoundError or TurnNotFoundError if there is no such session or turn.
    """
    return rebuild_state(connection, load_session(connection, session_id), turn_id)[0]


def rebuild_state(connection: Connection, session: StoredSession, turn_id: str | None) -> tuple[dict[str, Any], int]:
    """Return (state, replayed): the state after a committed turn, and the number of changing turns that were replayed.

    `turn_id` None means the state before the first turn. The replay starts from the nearest snapshot on the path, so it
    is short whatever the length of the session.
    """
    lineage: tuple[BranchSpan, ...] = ()
    if turn_id is not None:
        branch_id, depth = committed_place(connection, session, turn_id)
        lineage = read_lineage(connection, session.key, branch_id, depth)
    try:
        return _replay(connection, session, lineage)
    except DamagedRecordError:
        state = None if turn_id is None else _find_head_state(connection, session, turn_id)
        if state is None:
            raise
        # No earlier state leads here any more, so the next change makes a snapshot.
        return state, SNAPSHOT_EVERY


def _find_head_state(connection: Connection, session: StoredSession, turn_id: str) -> dict[str, Any] | None:
    """Return the state after a turn that is the head of a branch, from the row of that branch, or None."""
    rows = connection.execute(
        """SELECT b.branch_id, s.state FROM branches AS b JOIN branch_states AS s USING (session, branch_id)
            WHERE b.session = ? AND b.head_turn = ?""",
        (session.key, turn_id),
    ).fetchall()
    found = (read_body(connection, data, dict, state_place(session.key, branch_id)) for branch_id, data in rows)
    return next((state for state in found if state is not None), None)


def rebuild_head_state(connection: Connection, session: StoredSession, head: SessionHead) -> dict[str, Any]:
    """Return the state at a head from snapshots and changes, because its stored row is damaged."""
    return _replay(connection, session, head.lineage)[0]


def _replay(
    connection: Connection, session: StoredSession, lineage: Sequence[BranchSpan]
) -> tuple[dict[str, Any], int]:
    """Replay the changes of a lineage on its newest readable snapshot. DamagedRecordError if a change, or the state
    before the first turn, cannot be read.
    """
    logs: list[Sequence[Mapping[str, Any]]] = []
    base: dict[str, Any] | None = None
    for span in lineage:
        depth, base = _find_snapshot(connection, session, span)
        rows = connection.execute(
            _TURN
            + """WHERE session = ? AND branch_id = ? AND depth <= ? AND depth > ?
                AND status = 'committed' AND ops IS NOT NULL ORDER BY depth DESC""",
            (session.key, span.branch_id, span.upto_depth, depth),
        ).fetchall()
        logs.extend(load_body(connection, row[10], Ops, turn_place("ops", session.key, row[1:])) for row in rows)
        if base is not None:
            break
    if base is None:
        row = connection.execute(
            "SELECT state FROM snapshots WHERE session = ? AND branch_id = ? AND depth = 0", (session.key, BASE_BRANCH)
        ).fetchone()
        place = snapshot_place(session.key, BASE_BRANCH, 0)
        base = load_body(connection, None if row is None else row[0], dict, place)
    ops = [op for log in reversed(logs) for op in log]
    return (replay_ops(base, ops) if ops else base), len(logs)


def _find_snapshot(
    connection: Connection, session: StoredSession, span: BranchSpan
) -> tuple[int, dict[str, Any] | None]:
    """Return the newest snapshot of a span that can be read, with its depth; (-1, None) if there is none."""
    upto = span.upto_depth
    while True:
        row = connection.execute(
            """SELECT depth, state FROM snapshots WHERE session = ? AND branch_id = ? AND depth <= ?
                ORDER BY depth DESC LIMIT 1""",
            (session.key, span.branch_id, upto),
        ).fetchone()
        if row is None:
            return -1, None
        place = snapshot_place(session.key, span.branch_id, row[0])
        state = read_body(connection, row[1], dict, place, "The state was rebuilt from what is before it")
        if state is not None:
            return row[0], state
        upto = row[0] - 1
