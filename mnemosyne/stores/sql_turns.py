"""Reading turns: windows, records, and states rebuilt.

The room exists so that every query of a turn stands beside the index that it uses, and so that reads can run on a
connection that never waits for a writer. Each function runs inside a transaction that its caller has opened; none writes.

Cost: everything that a turn reads goes along the spans of a lineage, newest first, and stops when it has enough. So it
grows with what is asked for and with the number of forks on the path, never with the length of the session.
"""

from __future__ import annotations

from typing import Any

from mnemosyne.codec import decode, decode_tree, text_time
from mnemosyne.errors import TurnNotFoundError
from mnemosyne.patch import apply_patch
from mnemosyne.schema.document import ModelUsage, Summary, Task
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.record import WINDOW_USAGES, PathSummary, Prefetch, SessionWindow, TurnRecord
from mnemosyne.schema.session import (
    BranchSpan,
    Message,
    SessionHead,
    TurnKind,
    TurnStatus,
    WindowMessage,
)
from mnemosyne.stores.sql_connection import Connection
from mnemosyne.stores.sql_papers import unpacked
from mnemosyne.stores.sql_parts import newest_parts, read_parts
from mnemosyne.stores.sql_sessions import Entered, committed_place, enter, head_of, read_lineage
from mnemosyne.turn_tree import BASE_BRANCH, Ops

_TURN = """SELECT number, turn_id, branch_id, depth, parent_id, kind, status, fingerprint, created_at, anchors, ops, draft,
    plan FROM turns """


def read_window(connection: Connection, session_id: str, message_limit: int, branch_id: str | None) -> SessionWindow:
    """Return what a turn needs of a session."""
    session = enter(connection, session_id)
    head = head_of(connection, session, branch_id)
    here = (session.key, head.branch_id)
    state = connection.execute("SELECT state FROM branch_states WHERE session = ? AND branch_id = ?", here).fetchone()
    late = connection.execute("SELECT body FROM prefetches WHERE session = ? AND branch_id = ?", here).fetchone()
    pending = connection.execute(_TURN + "WHERE session = ? AND branch_id = ? AND status = 'prepared'", here).fetchone()
    return SessionWindow(
        head=head,
        messages=_newest_messages(connection, session.key, head, message_limit),
        state=decode_tree(state[0]),
        previous=None if head.turn_id is None else find_turn(connection, session, head.turn_id),
        pending=None if pending is None else _record(connection, session, pending, with_papers=True),
        prefetch=None if late is None else decode(late[0], Prefetch),
        summary=read_summary(connection, session.key, head.lineage)[0],
        tasks=read_parts(connection, session.key, "task", Task),
        usages=newest_parts(connection, session.key, "model_usage", ModelUsage, WINDOW_USAGES),
    )


def _newest_messages(connection: Connection, key: int, head: SessionHead, limit: int) -> tuple[WindowMessage, ...]:
    newest: list[WindowMessage] = []
    for span in head.lineage:
        if len(newest) >= limit:
            break
        rows = connection.execute(
            """SELECT body, turn_id, branch_id, depth FROM messages
                WHERE session = ? AND branch_id = ? AND depth <= ? ORDER BY depth DESC, ord DESC LIMIT ?""",
            (key, span.branch_id, span.upto_depth, limit - len(newest)),
        )
        newest.extend(_placed(row) for row in rows)
    return tuple(reversed(newest))


def read_path(connection: Connection, key: int, lineage: tuple[BranchSpan, ...]) -> tuple[WindowMessage, ...]:
    """Return all messages on a path, oldest first."""
    said: list[WindowMessage] = []
    for span in reversed(lineage):
        rows = connection.execute(
            """SELECT body, turn_id, branch_id, depth FROM messages
                WHERE session = ? AND branch_id = ? AND depth <= ? ORDER BY depth, ord""",
            (key, span.branch_id, span.upto_depth),
        )
        said.extend(_placed(row) for row in rows)
    return tuple(said)


def _placed(row: tuple[bytes, str, str, int]) -> WindowMessage:
    body, turn_id, branch_id, depth = row
    return WindowMessage(message=decode(body, Message), turn_id=turn_id, branch_id=branch_id, depth=depth)


def read_summary(connection: Connection, key: int, lineage: tuple[BranchSpan, ...]) -> tuple[PathSummary | None, bool]:
    """Return the newest rolling summary of a turn on a path, and whether the path says anything about a summary."""
    for span in lineage:
        row = connection.execute(
            """SELECT body, turn_id, branch_id, depth FROM summaries
                WHERE session = ? AND branch_id = ? AND depth <= ? ORDER BY depth DESC LIMIT 1""",
            (key, span.branch_id, span.upto_depth),
        ).fetchone()
        if row is not None:
            body, turn_id, branch_id, depth = row
            if body is None:
                return None, True
            summary = decode(body, Summary)
            return PathSummary(turn_id=turn_id, branch_id=branch_id, depth=depth, summary=summary), True
    return None, False


def read_turn(connection: Connection, session_id: str, turn_id: str) -> TurnRecord:
    """Return one turn with all it holds; SessionNotFoundError, TurnNotFoundError."""
    return find_turn(connection, enter(connection, session_id), turn_id)


def find_turn(connection: Connection, session: Entered, turn_id: str) -> TurnRecord:
    """Return one turn of a session with all it holds; TurnNotFoundError."""
    row = connection.execute(_TURN + "WHERE session = ? AND turn_id = ?", (session.key, turn_id)).fetchone()
    if row is None:
        raise TurnNotFoundError(session.session_id, turn_id)
    return _record(connection, session, row, with_papers=True)


def read_turns(
    connection: Connection, session_id: str, limit: int, branch_id: str | None, before_depth: int | None
) -> tuple[TurnRecord, ...]:
    """Return the newest committed turns on the path, oldest first, without prompt, receipt and report."""
    session = enter(connection, session_id)
    newest: list[TurnRecord] = []
    for span in head_of(connection, session, branch_id).lineage:
        if len(newest) >= limit:
            break
        upto = span.upto_depth if before_depth is None else min(span.upto_depth, before_depth - 1)
        rows = connection.execute(
            _TURN
            + "WHERE session = ? AND branch_id = ? AND depth <= ? AND status = 'committed' ORDER BY depth DESC LIMIT ?",
            (session.key, span.branch_id, upto, limit - len(newest)),
        ).fetchall()
        newest.extend(_record(connection, session, row, with_papers=False) for row in rows)
    return tuple(reversed(newest))


def _record(connection: Connection, session: Entered, row: tuple[Any, ...], *, with_papers: bool) -> TurnRecord:
    number, turn_id, branch_id, depth, parent_id, kind, status, fingerprint, at, anchors, ops, draft, plan = row
    papers = (None, None, None)
    if with_papers:
        found = connection.execute("SELECT receipt, prompt, report FROM papers WHERE turn = ?", (number,)).fetchone()
        papers = found or papers
    if status == TurnStatus.COMMITTED:
        bodies = connection.execute(
            "SELECT body FROM messages WHERE session = ? AND branch_id = ? AND depth = ? ORDER BY ord",
            (session.key, branch_id, depth),
        )
        messages = tuple(decode(body, Message) for (body,) in bodies)
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
        receipt=_paper(papers[0]),
        prompt=_paper(papers[1]),
        report=_paper(papers[2]),
        anchors=_tree(anchors) or EMPTY,
        ops=() if ops is None else decode(ops, Ops),
        created_at=None if at is None else text_time(at),
    )


def _paper(data: bytes | None) -> dict[str, Any] | None:
    return None if data is None else decode_tree(unpacked(data))


def _tree(data: bytes | None) -> dict[str, Any] | None:
    return None if data is None else decode_tree(data)


def read_state(connection: Connection, session_id: str, turn_id: str | None) -> dict[str, Any]:
    """Return the state as it was after a committed turn (None = before the first)."""
    return rebuild_state(connection, enter(connection, session_id), turn_id)[0]


def rebuild_state(connection: Connection, session: Entered, turn_id: str | None) -> tuple[dict[str, Any], int]:
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
    return (apply_patch(decode_tree(base), ops) if ops else decode_tree(base)), len(logs)
