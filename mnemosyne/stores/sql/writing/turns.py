"""Writes turns and branches of a SQL store.

This module enforces the rules of the turn tree: a branch has at most one pending turn, each depth of a branch has one committed
turn, and the version of the session must be the expected one. Each function runs inside a write transaction that its caller has
opened, and first loads and locks the session. If a function raises an error, nothing has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mnemosyne.chains.messages.message_ids import assign_ids
from mnemosyne.chains.turn_tree import (
    BASE_BRANCH,
    MAIN_BRANCH,
    check_adoption,
    check_place,
    check_version,
    is_same,
    place_at_turn,
)
from mnemosyne.chains.unanswered_inputs import is_closed_unanswered
from mnemosyne.core.codec import check_times, encode, encode_tree, format_time
from mnemosyne.core.errors import (
    BranchExistsError,
    BranchNotFoundError,
    SessionExistsError,
    TurnNotPendingError,
)
from mnemosyne.documents.views import refs_of_messages, started_frame
from mnemosyne.protocols.upkeep import SessionLimit
from mnemosyne.schema.document import Summary
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.record import (
    ImportedBranch,
    ImportedTurn,
    PathSummary,
    Prefetch,
    SessionStart,
    TurnCommit,
    TurnRecord,
)
from mnemosyne.schema.session import SessionHead, TurnKind, TurnStatus
from mnemosyne.stores.sql.blobs import (
    blob_place,
    frame_place,
    pack_body,
    prefetch_place,
    seal,
    snapshot_place,
    state_place,
    summary_place,
)
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.parts import check_stored_refs, refill_evidences, refill_parts
from mnemosyne.stores.sql.reading.turns import find_turn, rebuild_state
from mnemosyne.stores.sql.sessions import (
    StoredSession,
    check_session_limit,
    committed_place,
    find_session,
    has_branch,
    head_of,
    load_session,
)
from mnemosyne.stores.sql.writing.append import append
from mnemosyne.stores.sql.writing.close import close_pending, pending_id
from mnemosyne.stores.sql.writing.entries import append_session_entries, write_session_entries
from mnemosyne.stores.sql.writing.messages import insert_messages
from mnemosyne.stores.sql.writing.states import replace_states, write_state
from mnemosyne.stores.sql.writing.turn_rows import (
    abandon_pending,
    forget_turn,
    insert_turn,
    move_tip,
    sealed_ops,
    turn_status,
)


def create_session(connection: Connection, start: SessionStart, limit: SessionLimit | None) -> SessionHead:
    """Create a session with all its initial data.

    Raises SessionExistsError if the session exists, and the error of `limit` if the tenant must not have another session.
    """
    if not begin_session(connection, start, limit, version=1):
        raise SessionExistsError(start.session_id)
    session = load_session(connection, start.session_id)
    if start.extra or start.actor is not None:
        connection.post(
            "INSERT INTO documents (session, frame) VALUES (?, ?)",
            (session.key, seal(encode(started_frame(start)), frame_place(session.key))),
        )
    if start.actor is not None:
        connection.post("UPDATE sessions SET user_id = ? WHERE key = ?", (start.actor.user_id or None, session.key))
    if start.evidences:
        refill_evidences(connection, session.key, start.evidences)
    if start.blocks:
        refill_parts(connection, session.key, "block", start.blocks, lambda block: block.block_id)
    append(connection, session, head_of(connection, session), start.turns, start.at)
    head = head_of(connection, session)
    write_session_entries(connection, session, head, start.entries)
    return head


def begin_session(connection: Connection, start: SessionStart, limit: SessionLimit | None, *, version: int) -> bool:
    """Write a session without turns, and return whether it is new.

    Raises the error of `limit` if the tenant must not have another session.
    """
    state = encode_tree(start.state)
    connection.post(
        """INSERT INTO sessions (tenant, session_id, world_id, locale, active_branch, version, created_at)
            VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, session_id) DO NOTHING""",
        (
            connection.tenant,
            start.session_id,
            start.world_id,
            start.locale,
            MAIN_BRANCH,
            0,
            None if start.at is None else format_time(start.at),
        ),
    )
    session = find_session(connection, start.session_id)
    if session is None or session.version:
        return False
    if limit is not None:
        check_session_limit(connection, limit)
    key = session.key
    connection.post("UPDATE sessions SET version = ? WHERE key = ?", (version, key))
    connection.post(
        "INSERT INTO snapshots (session, branch_id, depth, state) VALUES (?, ?, 0, ?)",
        (key, BASE_BRANCH, seal(state, snapshot_place(key, BASE_BRANCH, 0))),
    )
    _insert_branch(connection, key, (MAIN_BRANCH, 0, None, 0, None, 0, 0), state)
    return True


def _insert_branch(connection: Connection, key: int, row: tuple[Any, ...], state: bytes) -> None:
    connection.post(
        """INSERT INTO branches
            (session, branch_id, ordinal, parent_branch, fork_depth, head_turn, head_depth, changes)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
        (key, *row),
    )
    connection.post(
        "INSERT INTO branch_states (session, branch_id, state) VALUES (?, ?, ?)",
        (key, row[0], seal(state, state_place(key, row[0]))),
    )


def adopt_world(
    connection: Connection,
    session_id: str,
    world_id: str,
    locale: str,
    state: Mapping[str, Any],
    instead_of: Collection[str],
) -> SessionHead:
    """Move a session from one of the worlds `instead_of` to the world `world_id`. `state` replaces its state on every
    branch.

    Raises WorldNotAdoptedError if the session is in another world, or its state has been changed.
    """
    session = load_session(connection, session_id)
    head = head_of(connection, session)
    if session.world_id == world_id:
        return head
    changing = connection.execute(
        "SELECT 1 FROM turns WHERE session = ? AND status = 'committed' AND ops IS NOT NULL LIMIT 1", (session.key,)
    )
    check_adoption(session_id, session.world_id, world_id, instead_of, has_changed=changing.fetchone() is not None)
    stored = encode_tree(state)
    connection.post("UPDATE sessions SET world_id = ?, locale = ? WHERE key = ?", (world_id, locale, session.key))
    replace_states(connection, session.key, stored)
    return advance_head(connection, session, replace(head, world_id=world_id))


def append_turns(
    connection: Connection,
    session_id: str,
    turns: Sequence[ImportedTurn],
    entries: Sequence[MemoryEntry],
    branch_id: str | None = None,
) -> SessionHead:
    """Commit finished turns after the head of a branch (None: the active one), and write `entries`.

    Turns that are committed already are skipped.
    """
    session = load_session(connection, session_id)
    before = head_of(connection, session, branch_id)
    refs = [held for turn in turns for held in refs_of_messages(turn.messages, f"turn {turn.turn_id!r}, ")]
    check_stored_refs(connection, session.key, refs)
    appended = append(connection, session, before, turns, None)
    after = head_of(connection, session, branch_id) if appended else before
    written = write_session_entries(connection, session, after, entries)
    return advance_head(connection, session, after) if appended or written else before


def add_branches(connection: Connection, session_id: str, branches: Sequence[ImportedBranch]) -> int:
    """Open branches with finished turns, and return how many were new. Existing branches are skipped.

    The active branch stays the same.
    """
    session = load_session(connection, session_id)
    turns = [turn for branch in branches for turn in branch.turns]
    refs = [held for turn in turns for held in refs_of_messages(turn.messages, f"turn {turn.turn_id!r}, ")]
    check_stored_refs(connection, session.key, refs)
    new = 0
    for branch in branches:
        if not has_branch(connection, session.key, branch.branch_id):
            open_branch(connection, session, branch.after, branch.branch_id, activate=False)
            append(connection, session, head_of(connection, session, branch.branch_id), branch.turns, None)
            new += 1
    if new:
        connection.post("UPDATE sessions SET version = ? WHERE key = ?", (session.version + 1, session.key))
    return new


def save_prepared(connection: Connection, record: TurnRecord, expected_version: int) -> SessionHead:
    """Write a prepared turn as the pending turn of its branch.

    If the branch has an older pending turn, it is abandoned. But if the new turn follows the older one, the older one is
    committed without a reply. If the new turn is committed already, or was prepared with the same content before, nothing is
    changed.
    """
    session = load_session(connection, record.session_id)
    head = head_of(connection, session, record.branch_id)
    record = replace(record, status=TurnStatus.PREPARED, messages=assign_ids(record.turn_id, record.messages))
    status = turn_status(connection, session.key, record.turn_id)
    if status is TurnStatus.COMMITTED:
        return _head_of_turn(connection, session, record)
    if status is TurnStatus.PREPARED and is_same(find_turn(connection, session, record.turn_id), record):
        return head
    check_version(session.session_id, session.version, expected_version)
    head = _close_parent(connection, session, head, record)
    check_place(head, record)
    if status is not None:
        forget_turn(connection, session.key, record.turn_id)
    abandon_pending(connection, session.key, record.branch_id)
    insert_turn(connection, session.key, record)
    return advance_head(connection, session, head)


def commit_turn(connection: Connection, session_id: str, commit: TurnCommit, expected_version: int) -> SessionHead:
    """Commit the pending turn with its reply, ops, state and entries. The head of its branch moves to the turn.

    If the turn is committed already, nothing changes. Raises TurnNotPendingError if the turn was abandoned, or
    committed without a reply.
    """
    session = load_session(connection, session_id)
    record = find_turn(connection, session, commit.turn_id, with_blobs=False)
    if record.status is TurnStatus.ABANDONED or is_closed_unanswered(record):
        raise TurnNotPendingError(session_id, commit.turn_id)
    if record.status is TurnStatus.COMMITTED:
        return _head_of_turn(connection, session, record)
    head = head_of(connection, session, record.branch_id)
    check_version(session.session_id, session.version, expected_version)
    check_place(head, record)
    check_stored_refs(connection, session.key, refs_of_messages(commit.messages))
    (number,) = connection.execute(
        "UPDATE turns SET status = 'committed', draft = NULL, ops = ? WHERE session = ? AND turn_id = ? RETURNING number",
        (sealed_ops(session.key, record, commit.ops), session.key, commit.turn_id),
    ).fetchone()
    if commit.report is not None:
        connection.post(
            "INSERT INTO papers (turn, report) VALUES (?, ?) ON CONFLICT (turn) DO UPDATE SET report = excluded.report",
            (number, pack_body(commit.report, blob_place("report", session.key, commit.turn_id))),
        )
    record = replace(record, messages=record.messages + commit.messages, ops=commit.ops)
    _finish_commit(connection, session, record, commit.state)
    after = head_of(connection, session, record.branch_id)
    write_session_entries(connection, session, after, [place_at_turn(entry, record) for entry in commit.entries])
    return advance_head(connection, session, after)


def commit_numerical(
    connection: Connection, record: TurnRecord, state: Mapping[str, Any], expected_version: int
) -> SessionHead:
    """Write and commit a numerical turn at once.

    A pending turn is abandoned. But if the numerical turn follows the pending one, the pending one is committed without
    a reply.
    """
    session = load_session(connection, record.session_id)
    head = head_of(connection, session, record.branch_id)
    status = turn_status(connection, session.key, record.turn_id)
    if status is TurnStatus.COMMITTED:
        return _head_of_turn(connection, session, record)
    check_version(session.session_id, session.version, expected_version)
    head = _close_parent(connection, session, head, record)
    check_place(head, record)
    if status is not None:
        forget_turn(connection, session.key, record.turn_id)
    abandon_pending(connection, session.key, record.branch_id)
    record = replace(record, kind=TurnKind.NUMERICAL, status=TurnStatus.COMMITTED)
    insert_turn(connection, session.key, record)
    _finish_commit(connection, session, record, state)
    return advance_head(connection, session, head_of(connection, session, record.branch_id))


def _close_parent(connection: Connection, session: StoredSession, head: SessionHead, record: TurnRecord) -> SessionHead:
    """Return the head that a turn follows: after the pending turn, which is committed without a reply, if it is the
    parent.
    """
    if record.parent_id is None or record.parent_id != pending_id(connection, session, record.branch_id):
        return head
    return close_pending(connection, session, head)


def fork(connection: Connection, session_id: str, turn_id: str | None, branch_id: str) -> SessionHead:
    """Open a branch after a committed turn (None: before the first turn), and make it the active branch."""
    session = load_session(connection, session_id)
    open_branch(connection, session, turn_id, branch_id)
    return advance_head(connection, session, head_of(connection, session, branch_id))


def open_branch(
    connection: Connection, session: StoredSession, turn_id: str | None, branch_id: str, *, activate: bool = True
) -> None:
    """Open a branch after a committed turn (None: before the first). The version of the session does not change.

    If `activate`, the branch becomes the active one. Raises BranchExistsError if the name is in use, and ValueError if
    the name is empty.
    """
    if not branch_id:
        raise ValueError("A branch needs a name: branch_id is empty.")
    if has_branch(connection, session.key, branch_id):
        raise BranchExistsError(session.session_id, branch_id)
    parent, depth = (None, 0) if turn_id is None else committed_place(connection, session, turn_id)
    state, changes = rebuild_state(connection, session, turn_id)
    (ordinal,) = connection.execute("SELECT count(*) FROM branches WHERE session = ?", (session.key,)).fetchone()
    row = (branch_id, ordinal, parent, depth, turn_id, depth, changes)
    _insert_branch(connection, session.key, row, encode_tree(state))
    if activate:
        _activate(connection, session.key, branch_id)


def switch(connection: Connection, session_id: str, branch_id: str) -> SessionHead:
    """Make another branch the active one. If it is active already, nothing changes.

    Raises BranchNotFoundError if there is no such branch.
    """
    session = load_session(connection, session_id)
    head = head_of(connection, session, branch_id)
    if session.active_branch == branch_id:
        return head
    _activate(connection, session.key, branch_id)
    return advance_head(connection, session, head)


def save_prefetch(connection: Connection, session_id: str, prefetch: Prefetch | None) -> None:
    """Store a selection of memories that came too late for its turn. Each branch keeps only the newest one.

    If `prefetch` is None, all selections of the session are deleted. They are a cache, so the version of the session
    does not change. Raises BranchNotFoundError if there is no such branch.
    """
    key = load_session(connection, session_id).key
    if prefetch is None:
        connection.post("DELETE FROM prefetches WHERE session = ?", (key,))
        return
    if not has_branch(connection, key, prefetch.branch_id):
        raise BranchNotFoundError(session_id, prefetch.branch_id)
    connection.post(
        """INSERT INTO prefetches (session, branch_id, depth, body) VALUES (?, ?, ?, ?)
            ON CONFLICT (session, branch_id) DO UPDATE SET depth = excluded.depth, body = excluded.body
            WHERE excluded.depth >= prefetches.depth""",
        (
            key,
            prefetch.branch_id,
            prefetch.depth,
            seal(encode(prefetch), prefetch_place(key, prefetch.branch_id)),
        ),
    )


def append_entries(connection: Connection, session_id: str, entries: Sequence[MemoryEntry]) -> int:
    """Add entries of committed turns, and return how many were new. Existing entries are skipped.

    The version of the session does not change.
    """
    return append_session_entries(connection, load_session(connection, session_id), entries)


def save_summary(connection: Connection, session_id: str, summary: PathSummary) -> None:
    """Store a rolling summary of the path up to a committed turn. It replaces the former summary of this turn.

    The version of the session does not change.
    """
    session = load_session(connection, session_id)
    branch_id, depth = committed_place(connection, session, summary.turn_id)
    check_times(summary.summary.updated_at)
    put_summary(connection, session.key, (branch_id, depth, summary.turn_id), summary.summary)


def put_summary(connection: Connection, key: int, place: tuple[str, int, str], summary: Summary | None) -> None:
    """Write the summary of a path from a turn on. None means that the path has no summary from there on.

    `place` is (branch, depth, turn id).
    """
    branch_id, depth, turn_id = place
    body = None if summary is None else seal(encode(summary), summary_place(key, turn_id, branch_id, depth))
    connection.post(
        """INSERT INTO summaries (session, branch_id, depth, turn_id, body) VALUES (?, ?, ?, ?, ?)
            ON CONFLICT (session, branch_id, depth) DO UPDATE SET turn_id = excluded.turn_id, body = excluded.body""",
        (key, *place, body),
    )


def advance_head(connection: Connection, session: StoredSession, head: SessionHead) -> SessionHead:
    """Increment the version of the session, and return `head` with the new version."""
    connection.post("UPDATE sessions SET version = ? WHERE key = ?", (session.version + 1, session.key))
    return replace(head, version=session.version + 1)


def _finish_commit(
    connection: Connection, session: StoredSession, record: TurnRecord, state: Mapping[str, Any] | None
) -> None:
    """Complete a commit: write the turn's messages and state, and move the head of its branch."""
    insert_messages(connection, session.key, (record,))
    move_tip(connection, session.key, record.branch_id, record.turn_id, record.depth)
    if state is not None or record.ops:
        write_state(connection, session, record, state)


def _activate(connection: Connection, key: int, branch_id: str) -> None:
    connection.post("UPDATE sessions SET active_branch = ? WHERE key = ?", (branch_id, key))


def _head_of_turn(connection: Connection, session: StoredSession, record: TurnRecord) -> SessionHead:
    branch_id, _ = committed_place(connection, session, record.turn_id)
    return head_of(connection, session, branch_id)
