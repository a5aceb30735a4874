"""Reading: what the SQLite store's rows say, as values of the schema.

The room exists so that every query stands beside the index that it uses, and so that reads can run on a connection that
never waits for a writer. Each function runs inside a transaction that its caller has opened; none of them writes.

Cost: everything that a turn reads goes along the spans of a lineage, newest first, and stops when it has enough. So it
grows with what is asked for and with the number of forks on the path, never with the length of the session.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from mnemosyne.codec import decode, decode_tree, text_time
from mnemosyne.errors import BranchNotFoundError, SessionNotFoundError, TurnNotFoundError
from mnemosyne.patch import apply_patch
from mnemosyne.schema.memory import EMPTY, Chain, MemoryEntry, Trust, session_scope
from mnemosyne.schema.record import Prefetch, SequencedEntry, SessionWindow, TurnRecord
from mnemosyne.schema.session import (
    BranchSpan,
    Message,
    Role,
    SessionHead,
    TurnKind,
    TurnStatus,
    WindowMessage,
)

Ops = tuple[Mapping[str, Any], ...]

BASE_BRANCH = ""
_TURN = """SELECT row, turn_id, branch_id, depth, parent_id, kind, status, fingerprint, created_at, anchors, ops, draft, plan
    FROM turns """
_LINEAGE = """WITH RECURSIVE path (branch_id, upto, parent, next_upto, place) AS (
        SELECT branch_id, coalesce(:depth, head_depth), parent_branch, fork_depth, 0 FROM branches
            WHERE session_id = :session AND branch_id = :branch
        UNION ALL
        SELECT b.branch_id, path.next_upto, b.parent_branch, b.fork_depth, path.place + 1
            FROM path JOIN branches AS b ON b.session_id = :session AND b.branch_id = path.parent)
    SELECT branch_id, upto FROM path ORDER BY place"""
_SPOKEN = (Role.USER, Role.ASSISTANT)


def read_head(connection: sqlite3.Connection, session_id: str, branch_id: str | None) -> SessionHead:
    """Return the head of a branch (None = the active one); SessionNotFoundError, BranchNotFoundError."""
    row = connection.execute(
        "SELECT world_id, active_branch, version FROM sessions WHERE session_id = ?", (session_id,)
    ).fetchone()
    if row is None:
        raise SessionNotFoundError(session_id)
    world_id, active, version = row
    branch_id = active if branch_id is None else branch_id
    tip = connection.execute(
        "SELECT head_turn, head_depth FROM branches WHERE session_id = ? AND branch_id = ?", (session_id, branch_id)
    ).fetchone()
    if tip is None:
        raise BranchNotFoundError(session_id, branch_id)
    return SessionHead(
        session_id=session_id,
        world_id=world_id,
        branch_id=branch_id,
        turn_id=tip[0],
        depth=tip[1],
        lineage=read_lineage(connection, session_id, branch_id),
        version=version,
    )


def read_lineage(
    connection: sqlite3.Connection, session_id: str, branch_id: str, depth: int | None = None
) -> tuple[BranchSpan, ...]:
    """Return the ancestors of a branch's head (or of its turn at `depth`), newest branch first."""
    rows = connection.execute(_LINEAGE, {"session": session_id, "branch": branch_id, "depth": depth})
    return tuple(BranchSpan(branch_id=branch, upto_depth=upto) for branch, upto in rows)


def read_branches(connection: sqlite3.Connection, session_id: str) -> tuple[SessionHead, ...]:
    """Return the head of every branch: the active one first, the others as they were opened."""
    active = read_head(connection, session_id, None)
    names = connection.execute(
        "SELECT branch_id FROM branches WHERE session_id = ? AND branch_id <> ? ORDER BY ordinal",
        (session_id, active.branch_id),
    ).fetchall()
    return (active, *(read_head(connection, session_id, name) for (name,) in names))


def read_window(
    connection: sqlite3.Connection, session_id: str, message_limit: int, branch_id: str | None
) -> SessionWindow:
    """Return what a turn needs of a session."""
    head = read_head(connection, session_id, branch_id)
    here = (session_id, head.branch_id)
    state = connection.execute(
        "SELECT state FROM branch_states WHERE session_id = ? AND branch_id = ?", here
    ).fetchone()[0]
    late = connection.execute("SELECT body FROM prefetches WHERE session_id = ? AND branch_id = ?", here).fetchone()
    pending = connection.execute(
        _TURN + "WHERE session_id = ? AND branch_id = ? AND status = 'prepared'", here
    ).fetchone()
    return SessionWindow(
        head=head,
        messages=_newest_messages(connection, head, message_limit),
        state=decode_tree(state),
        previous=None if head.turn_id is None else read_turn(connection, session_id, head.turn_id),
        pending=None if pending is None else _record(connection, session_id, pending, with_papers=True),
        prefetch=None if late is None else decode(late[0], Prefetch),
    )


def _newest_messages(connection: sqlite3.Connection, head: SessionHead, limit: int) -> tuple[WindowMessage, ...]:
    newest: list[WindowMessage] = []
    for span in head.lineage:
        if len(newest) >= limit:
            break
        rows = connection.execute(
            """SELECT body, turn_id, branch_id, depth FROM messages
                WHERE session_id = ? AND branch_id = ? AND depth <= ? ORDER BY depth DESC, ord DESC LIMIT ?""",
            (head.session_id, span.branch_id, span.upto_depth, limit - len(newest)),
        )
        newest.extend(
            WindowMessage(message=decode(body, Message), turn_id=turn_id, branch_id=branch_id, depth=depth)
            for body, turn_id, branch_id, depth in rows
        )
    return tuple(reversed(newest))


def read_turn(connection: sqlite3.Connection, session_id: str, turn_id: str) -> TurnRecord:
    """Return one turn with all it holds; SessionNotFoundError, TurnNotFoundError."""
    row = connection.execute(_TURN + "WHERE session_id = ? AND turn_id = ?", (session_id, turn_id)).fetchone()
    if row is None:
        read_head(connection, session_id, None)
        raise TurnNotFoundError(session_id, turn_id)
    return _record(connection, session_id, row, with_papers=True)


def read_turns(
    connection: sqlite3.Connection, session_id: str, limit: int, branch_id: str | None, before_depth: int | None
) -> tuple[TurnRecord, ...]:
    """Return the newest committed turns on the path, oldest first, without prompt, receipt and report."""
    head = read_head(connection, session_id, branch_id)
    newest: list[TurnRecord] = []
    for span in head.lineage:
        if len(newest) >= limit:
            break
        upto = span.upto_depth if before_depth is None else min(span.upto_depth, before_depth - 1)
        rows = connection.execute(
            _TURN
            + "WHERE session_id = ? AND branch_id = ? AND depth <= ? AND status = 'committed' ORDER BY depth DESC LIMIT ?",
            (session_id, span.branch_id, upto, limit - len(newest)),
        ).fetchall()
        newest.extend(_record(connection, session_id, row, with_papers=False) for row in rows)
    return tuple(reversed(newest))


def _record(connection: sqlite3.Connection, session_id: str, row: tuple[Any, ...], *, with_papers: bool) -> TurnRecord:
    number, turn_id, branch_id, depth, parent_id, kind, status, fingerprint, at, anchors, ops, draft, plan = row
    papers = (None, None, None)
    if with_papers:
        found = connection.execute(
            "SELECT receipt, prompt, report FROM papers WHERE turn_row = ?", (number,)
        ).fetchone()
        papers = found or papers
    if status == TurnStatus.COMMITTED:
        bodies = connection.execute(
            "SELECT body FROM messages WHERE session_id = ? AND branch_id = ? AND depth = ? ORDER BY ord",
            (session_id, branch_id, depth),
        )
        messages = tuple(decode(body, Message) for (body,) in bodies)
    else:
        messages = decode(draft, tuple[Message, ...])
    return TurnRecord(
        turn_id=turn_id,
        session_id=session_id,
        branch_id=branch_id,
        depth=depth,
        parent_id=parent_id,
        kind=TurnKind(kind),
        status=TurnStatus(status),
        messages=messages,
        fingerprint=fingerprint,
        plan=_tree(plan),
        receipt=_tree(papers[0]),
        prompt=_tree(papers[1]),
        report=_tree(papers[2]),
        anchors=_tree(anchors) or EMPTY,
        ops=() if ops is None else decode(ops, Ops),
        created_at=None if at is None else text_time(at),
    )


def _tree(data: bytes | None) -> dict[str, Any] | None:
    return None if data is None else decode_tree(data)


def rebuild_state(connection: sqlite3.Connection, session_id: str, turn_id: str | None) -> tuple[dict[str, Any], int]:
    """Return the state after a committed turn (None = before the first) and how many changing turns were replayed.

    It starts from the nearest snapshot on the path, so the replay is short whatever the length of the session.
    """
    lineage: tuple[BranchSpan, ...] = ()
    if turn_id is None:
        read_head(connection, session_id, None)
    else:
        branch_id, depth = committed_place(connection, session_id, turn_id)
        lineage = read_lineage(connection, session_id, branch_id, depth)
    logs: list[bytes] = []
    for span in lineage:
        snapshot = connection.execute(
            """SELECT depth, state FROM snapshots WHERE session_id = ? AND branch_id = ? AND depth <= ?
                ORDER BY depth DESC LIMIT 1""",
            (session_id, span.branch_id, span.upto_depth),
        ).fetchone()
        rows = connection.execute(
            """SELECT ops FROM turns WHERE session_id = ? AND branch_id = ? AND depth <= ? AND depth > ?
                AND status = 'committed' AND ops IS NOT NULL ORDER BY depth DESC""",
            (session_id, span.branch_id, span.upto_depth, -1 if snapshot is None else snapshot[0]),
        )
        logs.extend(ops for (ops,) in rows)
        if snapshot is not None:
            base = snapshot[1]
            break
    else:
        base = connection.execute(
            "SELECT state FROM snapshots WHERE session_id = ? AND branch_id = ? AND depth = 0",
            (session_id, BASE_BRANCH),
        ).fetchone()[0]
    ops = [op for log in reversed(logs) for op in decode(log, Ops)]
    return (apply_patch(decode_tree(base), ops) if ops else decode_tree(base)), len(logs)


def committed_place(connection: sqlite3.Connection, session_id: str, turn_id: str) -> tuple[str, int]:
    """Return branch and depth of a committed turn; SessionNotFoundError, TurnNotFoundError."""
    row = connection.execute(
        "SELECT branch_id, depth FROM turns WHERE session_id = ? AND turn_id = ? AND status = 'committed'",
        (session_id, turn_id),
    ).fetchone()
    if row is None:
        read_head(connection, session_id, None)
        raise TurnNotFoundError(session_id, turn_id)
    return row[0], row[1]


def read_entries(connection: sqlite3.Connection, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
    """Return full entries in the order asked; ids that are unknown, deleted or not for recall are left out."""
    wanted = json.dumps(list(entry_ids))
    rows = connection.execute(
        """SELECT entry_id, body FROM entries
            WHERE scope = ? AND entry_id IN (SELECT value FROM json_each(?)) AND deleted = 0""",
        (scope, wanted),
    )
    found = {entry_id: decode(body, MemoryEntry) for entry_id, body in rows}
    session_id = session_of(scope)
    if session_id is not None:
        spoken = connection.execute(
            """SELECT message_id, turn_id, branch_id, depth, body FROM messages
                WHERE session_id = ? AND message_id IN (SELECT value FROM json_each(?)) AND recalled = 1""",
            (session_id, wanted),
        )
        for message_id, turn_id, branch_id, depth, body in spoken:
            found.setdefault(message_id, _message_entry(scope, turn_id, branch_id, depth, decode(body, Message)))
    return tuple(found[entry_id] for entry_id in entry_ids if entry_id in found)


def read_entries_after(
    connection: sqlite3.Connection, scope: str, chain: Chain, sequence: int, limit: int
) -> tuple[SequencedEntry, ...]:
    """Return entries written after `sequence`, in the order of writing; those of the history chain are messages."""
    if chain is not Chain.HISTORY:
        rows = connection.execute(
            "SELECT seq, body, deleted FROM entries WHERE scope = ? AND chain = ? AND seq > ? ORDER BY seq LIMIT ?",
            (scope, chain.value, sequence, limit),
        )
        return tuple(
            SequencedEntry(sequence=seq, entry=decode(body, MemoryEntry), deleted=bool(deleted))
            for seq, body, deleted in rows
        )
    rows = connection.execute(
        """SELECT seq, turn_id, branch_id, depth, body FROM messages
            WHERE session_id = ? AND recalled = 1 AND seq > ? ORDER BY seq LIMIT ?""",
        (session_of(scope), sequence, limit),
    )
    return tuple(
        SequencedEntry(sequence=seq, entry=_message_entry(scope, turn_id, branch_id, depth, decode(body, Message)))
        for seq, turn_id, branch_id, depth, body in rows
    )


def read_restricted(connection: sqlite3.Connection, scopes: Sequence[str]) -> tuple[MemoryEntry, ...]:
    """Return the entries of these scopes that carry viewers or conditions, ordered by id."""
    rows = connection.execute(
        """SELECT body FROM entries WHERE scope IN (SELECT value FROM json_each(?)) AND restricted = 1 AND deleted = 0
            ORDER BY entry_id, scope""",
        (json.dumps(list(scopes)),),
    )
    return tuple(decode(body, MemoryEntry) for (body,) in rows)


def session_of(scope: str) -> str | None:
    """Return the session that a scope names, or None for a world's."""
    start = session_scope("")
    return scope[len(start) :] if scope.startswith(start) else None


def is_recalled(message: Message, kind: TurnKind) -> bool:
    """Say whether a message may be recalled: spoken words of a told turn, not numbers, tools, instructions or nothing."""
    return kind is TurnKind.NARRATIVE and message.role in _SPOKEN and bool(message.content.strip())


def _message_entry(scope: str, turn_id: str, branch_id: str, depth: int, message: Message) -> MemoryEntry:
    speaker = message.author.id if message.author is not None and message.author.id else message.role.value
    return MemoryEntry(
        entry_id=message.message_id,
        scope=scope,
        chain=Chain.HISTORY,
        kind="message",
        text=message.content,
        title=speaker,
        speaker=speaker,
        at=message.at,
        turn_id=turn_id,
        branch_id=branch_id,
        depth=depth,
        trust=Trust.USER if message.role is Role.USER else Trust.MODEL,
    )
