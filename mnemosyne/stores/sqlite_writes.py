"""Writing turns and branches: the changes that the SQLite store makes to its rows.

The room exists so that the rules of the turn tree (one pending turn a branch, one committed turn a place, versions) stand
in one file. Each function runs inside a write transaction that its caller has opened: when it raises, nothing has changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mnemosyne.codec import decode_tree, encode, encode_tree, time_text
from mnemosyne.errors import (
    BranchExistsError,
    BranchNotFoundError,
    SessionExistsError,
    StateOpError,
    TurnNotPendingError,
    VersionConflictError,
)
from mnemosyne.patch import apply_patch
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.record import ImportedTurn, Prefetch, SessionStart, TurnCommit, TurnRecord
from mnemosyne.schema.session import SessionHead, TurnKind, TurnStatus
from mnemosyne.stores.sqlite_entries import write_session_entries
from mnemosyne.stores.sqlite_messages import insert_messages, named
from mnemosyne.stores.sqlite_rows import (
    BASE_BRANCH,
    committed_place,
    read_head,
    read_turn,
    rebuild_state,
)

MAIN_BRANCH = "main"
SNAPSHOT_EVERY = 50
"""Turns that change the state between two snapshots: rebuilding a past state replays fewer than this, a branch."""


def create_session(connection: sqlite3.Connection, start: SessionStart) -> SessionHead:
    """Create a session with its first turns and entries; SessionExistsError."""
    session_id = start.session_id
    if connection.execute("SELECT 1 FROM sessions WHERE session_id = ?", (session_id,)).fetchone():
        raise SessionExistsError(session_id)
    state = encode_tree(start.state)
    connection.execute(
        "INSERT INTO sessions VALUES (?, ?, ?, ?, 1, ?)",
        (session_id, start.world_id, start.locale, MAIN_BRANCH, _time(start.at)),
    )
    connection.execute("INSERT INTO snapshots VALUES (?, ?, 0, ?)", (session_id, BASE_BRANCH, state))
    connection.execute("INSERT INTO branches VALUES (?, ?, 0, NULL, 0, NULL, 0, 0)", (session_id, MAIN_BRANCH))
    connection.execute("INSERT INTO branch_states VALUES (?, ?, ?)", (session_id, MAIN_BRANCH, state))
    _append(connection, read_head(connection, session_id, None), start.turns, start.at)
    head = read_head(connection, session_id, None)
    write_session_entries(connection, head, start.entries)
    return head


def append_turns(
    connection: sqlite3.Connection, session_id: str, turns: Sequence[ImportedTurn], entries: Sequence[MemoryEntry]
) -> SessionHead:
    """Commit finished turns after the active head; turns that are committed already are skipped."""
    before = read_head(connection, session_id, None)
    appended = _append(connection, before, turns, None)
    after = read_head(connection, session_id, None)
    written = write_session_entries(connection, after, entries)
    return _moved(connection, after) if appended or written else before


def _append(
    connection: sqlite3.Connection, head: SessionHead, turns: Sequence[ImportedTurn], at: datetime | None
) -> int:
    parent_id, depth = head.turn_id, head.depth
    for turn in turns:
        status = _status(connection, head.session_id, turn.turn_id)
        if status is TurnStatus.COMMITTED:
            continue
        if status is not None:
            _forget(connection, head.session_id, turn.turn_id)
        depth += 1
        record = TurnRecord(
            turn_id=turn.turn_id,
            session_id=head.session_id,
            branch_id=head.branch_id,
            depth=depth,
            parent_id=parent_id,
            kind=turn.kind,
            status=TurnStatus.COMMITTED,
            messages=turn.messages,
            created_at=at,
        )
        _insert(connection, record)
        insert_messages(connection, record)
        parent_id = turn.turn_id
    if depth > head.depth:
        _abandon_pending(connection, head.session_id, head.branch_id)
        _move_tip(connection, head.session_id, head.branch_id, parent_id, depth)
    return depth - head.depth


def save_prepared(connection: sqlite3.Connection, record: TurnRecord, expected_version: int) -> SessionHead:
    """Write a prepared turn as the pending one of its head; an older pending one is abandoned.

    A turn that is committed, or prepared with the same content, is left as it is: the call has been made before.
    """
    head = read_head(connection, record.session_id, record.branch_id)
    record = replace(record, status=TurnStatus.PREPARED, messages=named(record.turn_id, record.messages))
    status = _status(connection, record.session_id, record.turn_id)
    if status is TurnStatus.COMMITTED:
        return _head_of_turn(connection, record)
    if status is TurnStatus.PREPARED and _same(read_turn(connection, record.session_id, record.turn_id), record):
        return head
    _check_version(head, expected_version)
    _check_place(head, record)
    if status is not None:
        _forget(connection, record.session_id, record.turn_id)
    _abandon_pending(connection, record.session_id, record.branch_id)
    _insert(connection, record)
    return _moved(connection, head)


def commit_turn(
    connection: sqlite3.Connection, session_id: str, commit: TurnCommit, expected_version: int
) -> SessionHead:
    """Commit the pending turn with its reply, ops, state and entries; the head of its branch moves to it."""
    record = read_turn(connection, session_id, commit.turn_id)
    if record.status is TurnStatus.COMMITTED:
        return _head_of_turn(connection, record)
    if record.status is TurnStatus.ABANDONED:
        raise TurnNotPendingError(session_id, commit.turn_id)
    head = read_head(connection, session_id, record.branch_id)
    _check_version(head, expected_version)
    _check_place(head, record)
    connection.execute(
        """UPDATE turns SET status = 'committed', draft = NULL, ops = ? WHERE session_id = ? AND turn_id = ?""",
        (encode(commit.ops) if commit.ops else None, session_id, commit.turn_id),
    )
    if commit.report is not None:
        connection.execute(
            """INSERT INTO papers SELECT row, NULL, NULL, ? FROM turns WHERE session_id = ? AND turn_id = ?
                ON CONFLICT (turn_row) DO UPDATE SET report = excluded.report""",
            (encode(commit.report), session_id, commit.turn_id),
        )
    _settle(connection, replace(record, messages=record.messages + commit.messages, ops=commit.ops), commit.state)
    after = read_head(connection, session_id, record.branch_id)
    entries = [_at_turn(entry, record) for entry in commit.entries]
    write_session_entries(connection, after, entries)
    return _moved(connection, after)


def commit_numerical(
    connection: sqlite3.Connection, record: TurnRecord, state: Mapping[str, Any], expected_version: int
) -> SessionHead:
    """Write and commit a numerical turn at once; what was pending on its head is abandoned."""
    head = read_head(connection, record.session_id, record.branch_id)
    status = _status(connection, record.session_id, record.turn_id)
    if status is TurnStatus.COMMITTED:
        return _head_of_turn(connection, record)
    _check_version(head, expected_version)
    _check_place(head, record)
    if status is not None:
        _forget(connection, record.session_id, record.turn_id)
    _abandon_pending(connection, record.session_id, record.branch_id)
    record = replace(record, kind=TurnKind.NUMERICAL, status=TurnStatus.COMMITTED)
    _insert(connection, record)
    _settle(connection, record, state)
    return _moved(connection, read_head(connection, record.session_id, record.branch_id))


def fork(connection: sqlite3.Connection, session_id: str, turn_id: str | None, branch_id: str) -> SessionHead:
    """Open a branch after a committed turn (None = before the first) and make it the active one."""
    if not branch_id:
        raise ValueError("A branch needs a name: branch_id is empty.")
    read_head(connection, session_id, None)
    if _has_branch(connection, session_id, branch_id):
        raise BranchExistsError(session_id, branch_id)
    parent, depth = (None, 0) if turn_id is None else committed_place(connection, session_id, turn_id)
    state, changes = rebuild_state(connection, session_id, turn_id)
    ordinal = connection.execute("SELECT count(*) FROM branches WHERE session_id = ?", (session_id,)).fetchone()[0]
    connection.execute(
        "INSERT INTO branches VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (session_id, branch_id, ordinal, parent, depth, turn_id, depth, changes),
    )
    connection.execute("INSERT INTO branch_states VALUES (?, ?, ?)", (session_id, branch_id, encode_tree(state)))
    connection.execute("UPDATE sessions SET active_branch = ? WHERE session_id = ?", (branch_id, session_id))
    return _moved(connection, read_head(connection, session_id, branch_id))


def switch(connection: sqlite3.Connection, session_id: str, branch_id: str) -> SessionHead:
    """Make another branch the active one; BranchNotFoundError. The active one again is no change."""
    active = read_head(connection, session_id, None)
    if active.branch_id == branch_id:
        return active
    head = read_head(connection, session_id, branch_id)
    connection.execute("UPDATE sessions SET active_branch = ? WHERE session_id = ?", (branch_id, session_id))
    return _moved(connection, head)


def save_prefetch(connection: sqlite3.Connection, session_id: str, prefetch: Prefetch | None) -> None:
    """Keep the newest late result of a branch, or forget those of the session. It is a cache: no version moves."""
    read_head(connection, session_id, None)
    if prefetch is None:
        connection.execute("DELETE FROM prefetches WHERE session_id = ?", (session_id,))
        return
    if not _has_branch(connection, session_id, prefetch.branch_id):
        raise BranchNotFoundError(session_id, prefetch.branch_id)
    connection.execute(
        """INSERT INTO prefetches VALUES (?, ?, ?, ?) ON CONFLICT (session_id, branch_id)
            DO UPDATE SET depth = excluded.depth, body = excluded.body WHERE excluded.depth >= depth""",
        (session_id, prefetch.branch_id, prefetch.depth, encode(prefetch)),
    )


def _settle(connection: sqlite3.Connection, record: TurnRecord, state: Mapping[str, Any] | None) -> None:
    """Give a turn that has just become committed its messages, its state and the head of its branch."""
    insert_messages(connection, record)
    _move_tip(connection, record.session_id, record.branch_id, record.turn_id, record.depth)
    if state is not None or record.ops:
        _write_state(connection, record, state)


def _write_state(connection: sqlite3.Connection, record: TurnRecord, state: Mapping[str, Any] | None) -> None:
    """Move the head state; a snapshot follows every fifty changes, and wherever the ops alone do not lead to `state`."""
    here = (record.session_id, record.branch_id)
    before, changes = connection.execute(
        """SELECT s.state, b.changes FROM branch_states AS s JOIN branches AS b USING (session_id, branch_id)
            WHERE s.session_id = ? AND s.branch_id = ?""",
        here,
    ).fetchone()
    try:
        replayed = encode_tree(apply_patch(decode_tree(before), record.ops)) if record.ops else before
    except StateOpError:
        if state is None:
            raise
        replayed = b""
    after = replayed if state is None else encode_tree(state)
    if after == replayed == before:
        return
    changes = 0 if after != replayed or changes + 1 >= SNAPSHOT_EVERY else changes + 1
    if changes == 0:
        connection.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?)", (*here, record.depth, after))
    connection.execute("UPDATE branch_states SET state = ? WHERE session_id = ? AND branch_id = ?", (after, *here))
    connection.execute("UPDATE branches SET changes = ? WHERE session_id = ? AND branch_id = ?", (changes, *here))


def _insert(connection: sqlite3.Connection, record: TurnRecord) -> None:
    waiting = record.status is not TurnStatus.COMMITTED
    cursor = connection.execute(
        """INSERT INTO turns (session_id, turn_id, branch_id, depth, parent_id, kind, status, fingerprint, created_at,
            anchors, ops, draft, plan) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            record.session_id,
            record.turn_id,
            record.branch_id,
            record.depth,
            record.parent_id,
            record.kind.value,
            record.status.value,
            record.fingerprint,
            _time(record.created_at),
            encode(record.anchors) if record.anchors else None,
            encode(record.ops) if record.ops else None,
            encode(record.messages) if waiting else None,
            None if record.plan is None else encode(record.plan),
        ),
    )
    if record.receipt is not None or record.prompt is not None:
        papers = (None if paper is None else encode(paper) for paper in (record.receipt, record.prompt))
        connection.execute("INSERT INTO papers VALUES (?, ?, ?, NULL)", (cursor.lastrowid, *papers))


def _abandon_pending(connection: sqlite3.Connection, session_id: str, branch_id: str) -> None:
    connection.execute(
        "UPDATE turns SET status = 'abandoned' WHERE session_id = ? AND branch_id = ? AND status = 'prepared'",
        (session_id, branch_id),
    )


def _forget(connection: sqlite3.Connection, session_id: str, turn_id: str) -> None:
    """Remove a turn that is not committed, so that its id can be written anew."""
    connection.execute(
        "DELETE FROM papers WHERE turn_row = (SELECT row FROM turns WHERE session_id = ? AND turn_id = ?)",
        (session_id, turn_id),
    )
    connection.execute("DELETE FROM turns WHERE session_id = ? AND turn_id = ?", (session_id, turn_id))


def _move_tip(connection: sqlite3.Connection, session_id: str, branch_id: str, turn_id: str | None, depth: int) -> None:
    connection.execute(
        "UPDATE branches SET head_turn = ?, head_depth = ? WHERE session_id = ? AND branch_id = ?",
        (turn_id, depth, session_id, branch_id),
    )


def _moved(connection: sqlite3.Connection, head: SessionHead) -> SessionHead:
    connection.execute("UPDATE sessions SET version = version + 1 WHERE session_id = ?", (head.session_id,))
    return replace(head, version=head.version + 1)


def _head_of_turn(connection: sqlite3.Connection, record: TurnRecord) -> SessionHead:
    branch_id, _ = committed_place(connection, record.session_id, record.turn_id)
    return read_head(connection, record.session_id, branch_id)


def _check_version(head: SessionHead, expected: int) -> None:
    if head.version != expected:
        raise VersionConflictError(head.session_id, expected, head.version)


def _check_place(head: SessionHead, record: TurnRecord) -> None:
    if (record.parent_id, record.depth) != (head.turn_id, head.depth + 1):
        raise ValueError(
            f"Turn {record.turn_id!r} says it follows {record.parent_id!r} at depth {record.depth}, but the head of branch "
            f"{head.branch_id!r} is {head.turn_id!r} at depth {head.depth}. Make the record from the head."
        )


def _same(stored: TurnRecord, given: TurnRecord) -> bool:
    """Compare what the caller decided; the time of writing may differ between two calls."""
    return encode(replace(stored, created_at=None)) == encode(replace(given, created_at=None, ops=stored.ops))


def _status(connection: sqlite3.Connection, session_id: str, turn_id: str) -> TurnStatus | None:
    row = connection.execute(
        "SELECT status FROM turns WHERE session_id = ? AND turn_id = ?", (session_id, turn_id)
    ).fetchone()
    return None if row is None else TurnStatus(row[0])


def _has_branch(connection: sqlite3.Connection, session_id: str, branch_id: str) -> bool:
    row = connection.execute(
        "SELECT 1 FROM branches WHERE session_id = ? AND branch_id = ?", (session_id, branch_id)
    ).fetchone()
    return row is not None


def _at_turn(entry: MemoryEntry, record: TurnRecord) -> MemoryEntry:
    return replace(entry, turn_id=record.turn_id, branch_id=record.branch_id, depth=record.depth)


def _time(at: datetime | None) -> str | None:
    return None if at is None else time_text(at)
