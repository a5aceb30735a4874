"""Writes turns and branches into a ledger.

It enforces the rules of the turn tree: one pending turn per branch, one committed turn per place, versions. Each
function runs inside `Ledger.run`: when it raises, nothing has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mnemosyne.chains.json_patch import replay_ops
from mnemosyne.chains.messages.message_ids import assign_ids
from mnemosyne.chains.turn_tree import (
    BASE_BRANCH,
    MAIN_BRANCH,
    SNAPSHOT_EVERY,
    build_imported_record,
    check_adoption,
    check_place,
    check_version,
    is_same,
    place_at_turn,
)
from mnemosyne.chains.unanswered import is_closed_unanswered, mark_unanswered
from mnemosyne.core.codec import JsonText, check_times, decode_raw, encode_raw, encode_raw_tree
from mnemosyne.core.errors import (
    BranchExistsError,
    SessionExistsError,
    StateOpError,
    TurnNotPendingError,
)
from mnemosyne.documents.views import check_refs, refs_of_messages, started_frame
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
from mnemosyne.stores.ledger.entries import write_session_entries
from mnemosyne.stores.ledger.ledger import Ledger
from mnemosyne.stores.ledger.reads import (
    branch_row,
    committed_turn,
    head_state,
    read_head,
    read_turn,
    rebuild_state,
    session_row,
)
from mnemosyne.stores.ledger.rows import (
    BranchRow,
    SessionRow,
    SnapshotRow,
    snapshot_key,
)
from mnemosyne.stores.ledger.turn_rows import (
    forget_turn,
    insert_messages,
    insert_pending,
    insert_turn,
    move_tip,
    turn_row,
)


def create_session(ledger: Ledger, start: SessionStart) -> SessionHead:
    """Create a session with its first turns and entries; SessionExistsError."""
    if ledger.session is not None:
        raise SessionExistsError(start.session_id)
    begin(ledger, start.session_id, start.world_id, start.locale, start.state, start.at)
    if start.extra or start.actor is not None:
        ledger.refill("document", {"frame": encode_raw(started_frame(start))})
    append(ledger, read_head(ledger, start.session_id), start.turns, start.at)
    head = read_head(ledger, start.session_id)
    write_session_entries(ledger, head, start.entries)
    return head


def begin(
    ledger: Ledger,
    session_id: str,
    world_id: str,
    locale: str,
    state: Mapping[str, Any],
    at: datetime | None,
    *,
    version: int = 1,
) -> None:
    """Write a session without turns."""
    check_times(at)
    row = SessionRow(
        session_id=session_id,
        world_id=world_id,
        locale=locale,
        active_branch=MAIN_BRANCH,
        version=version,
        created_at=at,
    )
    ledger.put_session(row)
    _snapshot(ledger, BASE_BRANCH, 0, encode_raw_tree(state))
    ledger.put("branch", MAIN_BRANCH, BranchRow(ordinal=0))


def adopt_world(
    ledger: Ledger, session_id: str, world_id: str, locale: str, state: Mapping[str, Any], instead_of: Collection[str]
) -> SessionHead:
    """Move a session from one of some worlds to another, with its state on every branch; WorldNotAdoptedError."""
    head, session = read_head(ledger, session_id), session_row(ledger, session_id)
    if session.world_id == world_id:
        return head
    check_adoption(session_id, session.world_id, world_id, instead_of, has_changed=any(ledger.changing.values()))
    ledger.put_session(replace(session, world_id=world_id, locale=locale))
    _snapshot(ledger, BASE_BRANCH, 0, encode_raw_tree(state))
    return advance_head(ledger, replace(head, world_id=world_id))


def append_turns(
    ledger: Ledger,
    session_id: str,
    turns: Sequence[ImportedTurn],
    entries: Sequence[MemoryEntry],
    branch_id: str | None = None,
) -> SessionHead:
    """Commit finished turns after the head of a branch (None: the active one); those that are committed already are skipped."""
    before = read_head(ledger, session_id, branch_id)
    for turn in turns:
        check_refs(refs_of_messages(turn.messages, f"turn {turn.turn_id!r}, "), ledger.evidences.__contains__)
    appended = append(ledger, before, turns, None)
    after = read_head(ledger, session_id, before.branch_id)
    wrote = write_session_entries(ledger, after, entries)
    return advance_head(ledger, after) if appended or wrote else before


def add_branches(ledger: Ledger, session_id: str, branches: Sequence[ImportedBranch]) -> int:
    """Open branches with finished turns, skipping those that exist, and return how many were new; the active branch stays."""
    session, new = session_row(ledger, session_id), 0
    for branch in branches:
        if branch.branch_id in ledger.branches:
            continue
        for turn in branch.turns:
            check_refs(refs_of_messages(turn.messages, f"turn {turn.turn_id!r}, "), ledger.evidences.__contains__)
        open_branch(ledger, session_id, branch.after, branch.branch_id)
        append(ledger, read_head(ledger, session_id, branch.branch_id), branch.turns, None)
        new += 1
    if new:
        ledger.put_session(replace(session, version=session.version + 1))
    return new


def append(ledger: Ledger, head: SessionHead, turns: Sequence[ImportedTurn], at: datetime | None) -> int:
    """Commit finished turns after `head` without changing the version; return how many were new.

    A turn that waits for its reply is committed without one before them, unless it is among them.
    """
    new = [turn for turn in turns if not _is_committed(ledger, turn.turn_id)]
    if new and ledger.branches[head.branch_id].pending not in {turn.turn_id for turn in new}:
        head = close_pending(ledger, head)
    parent_id, depth = head.turn_id, head.depth
    for turn in new:
        if _is_committed(ledger, turn.turn_id):
            continue
        if turn.turn_id in ledger.turns:
            forget_turn(ledger, turn.turn_id)
        depth += 1
        record = build_imported_record(turn, head, parent_id, depth, at)
        insert_turn(ledger, record)
        insert_messages(ledger, record)
        parent_id = turn.turn_id
    if depth > head.depth:
        abandon_pending(ledger, head.branch_id)
        move_tip(ledger, head.branch_id, parent_id, depth)
    return depth - head.depth


def _is_committed(ledger: Ledger, turn_id: str) -> bool:
    row = ledger.turns.get(turn_id)
    return row is not None and row.status is TurnStatus.COMMITTED


def save_prepared(ledger: Ledger, session_id: str, record: TurnRecord, expected_version: int) -> SessionHead:
    """Write a prepared turn as the pending one of its head; an older pending one is abandoned, or committed without a
    reply where the turn follows it.

    A turn that is committed, or prepared with the same content, is not changed: the call is a repetition.
    """
    head = read_head(ledger, session_id, record.branch_id)
    record = replace(record, status=TurnStatus.PREPARED, messages=assign_ids(record.turn_id, record.messages))
    row = ledger.turns.get(record.turn_id)
    if row is not None and row.status is TurnStatus.COMMITTED:
        return _head_of_turn(ledger, record)
    if row is not None and row.status is TurnStatus.PREPARED:
        stored = read_turn(ledger, session_id, record.turn_id)
        if is_same(stored, record):
            return head
    check_version(head.session_id, head.version, expected_version)
    if record.parent_id is not None and record.parent_id == ledger.branches[record.branch_id].pending:
        head = close_pending(ledger, head)
    check_place(head, record)
    abandon_pending(ledger, record.branch_id)
    if row is not None:
        forget_turn(ledger, record.turn_id)
    insert_pending(ledger, record)
    ledger.put("branch", record.branch_id, replace(ledger.branches[record.branch_id], pending=record.turn_id))
    return advance_head(ledger, head)


def commit_turn(ledger: Ledger, session_id: str, commit: TurnCommit, expected_version: int) -> SessionHead:
    """Commit the pending turn with its reply, ops, state and entries; the head of its branch moves to it.
    TurnNotPendingError for an abandoned turn, and for one that was committed without a reply.
    """
    record = read_turn(ledger, session_id, commit.turn_id)
    if record.status is TurnStatus.ABANDONED or is_closed_unanswered(record):
        raise TurnNotPendingError(session_id, commit.turn_id)
    if record.status is TurnStatus.COMMITTED:
        return _head_of_turn(ledger, record)
    head = read_head(ledger, session_id, record.branch_id)
    check_version(head.session_id, head.version, expected_version)
    check_place(head, record)
    check_refs(refs_of_messages(commit.messages), ledger.evidences.__contains__)
    record = replace(
        record, status=TurnStatus.COMMITTED, messages=record.messages + commit.messages, ops=commit.ops, report=None
    )
    before = head_state(ledger, record.branch_id)
    ledger.put("turn", commit.turn_id, turn_row(record))
    ledger.drop("draft", commit.turn_id)
    if commit.report is not None:
        ledger.put("report", commit.turn_id, encode_raw(commit.report))
    _finish_commit(ledger, record, before, commit.state)
    after = read_head(ledger, session_id, record.branch_id)
    write_session_entries(ledger, after, [place_at_turn(entry, record) for entry in commit.entries])
    return advance_head(ledger, after)


def commit_numerical(
    ledger: Ledger, session_id: str, record: TurnRecord, state: Mapping[str, Any], expected_version: int
) -> SessionHead:
    """Write and commit a numerical turn at once; the pending turn is abandoned, or committed without a reply where the
    turn follows it.
    """
    head = read_head(ledger, session_id, record.branch_id)
    row = ledger.turns.get(record.turn_id)
    if row is not None and row.status is TurnStatus.COMMITTED:
        return _head_of_turn(ledger, record)
    check_version(head.session_id, head.version, expected_version)
    if record.parent_id is not None and record.parent_id == ledger.branches[record.branch_id].pending:
        head = close_pending(ledger, head)
    check_place(head, record)
    abandon_pending(ledger, record.branch_id)
    if row is not None:
        forget_turn(ledger, record.turn_id)
    record = replace(record, kind=TurnKind.NUMERICAL, status=TurnStatus.COMMITTED)
    before = head_state(ledger, record.branch_id)
    insert_turn(ledger, record)
    _finish_commit(ledger, record, before, state)
    return advance_head(ledger, read_head(ledger, session_id, record.branch_id))


def fork(ledger: Ledger, session_id: str, turn_id: str | None, branch_id: str) -> SessionHead:
    """Open a branch after a committed turn (None = before the first) and make it the active one."""
    open_branch(ledger, session_id, turn_id, branch_id)
    return advance_head(ledger, read_head(ledger, session_id, branch_id))


def open_branch(ledger: Ledger, session_id: str, turn_id: str | None, branch_id: str) -> None:
    """Open a branch and make it the active one without changing the version. BranchExistsError; ValueError for an empty
    name.
    """
    if not branch_id:
        raise ValueError("A branch needs a name: branch_id is empty.")
    session = session_row(ledger, session_id)
    if branch_id in ledger.branches:
        raise BranchExistsError(session_id, branch_id)
    place = None if turn_id is None else committed_turn(ledger, session_id, turn_id)
    changes = rebuild_state(ledger, session_id, turn_id)[1]
    depth = 0 if place is None else place.depth
    row = BranchRow(
        ordinal=len(ledger.branches),
        parent=None if place is None else place.branch_id,
        fork_depth=depth,
        head_turn=turn_id,
        head_depth=depth,
        changes=changes,
    )
    ledger.put("branch", branch_id, row)
    ledger.put_session(replace(session, active_branch=branch_id))


def switch(ledger: Ledger, session_id: str, branch_id: str) -> SessionHead:
    """Make another branch the active one; BranchNotFoundError. Naming the active one changes nothing."""
    active = read_head(ledger, session_id)
    if active.branch_id == branch_id:
        return active
    head = read_head(ledger, session_id, branch_id)
    ledger.put_session(replace(session_row(ledger, session_id), active_branch=branch_id))
    return advance_head(ledger, head)


def save_prefetch(ledger: Ledger, session_id: str, prefetch: Prefetch | None) -> None:
    """Store the newest late result of a branch, or delete those of the session. It is a cache: the version does not
    change.
    """
    session_row(ledger, session_id)
    if prefetch is None:
        for branch_id in list(ledger.bodies("late")):
            ledger.drop("late", branch_id)
        return
    branch_row(ledger, session_id, prefetch.branch_id)
    known = ledger.bodies("late").get(prefetch.branch_id)
    if known is None or decode_raw(known, Prefetch).depth <= prefetch.depth:
        ledger.put("late", prefetch.branch_id, encode_raw(prefetch))


def save_summary(ledger: Ledger, session_id: str, summary: PathSummary) -> None:
    """Store a rolling summary of a committed turn's path, replacing that of its turn. The version does not change."""
    row = committed_turn(ledger, session_id, summary.turn_id)
    check_times(summary.summary.updated_at)
    placed = replace(summary, branch_id=row.branch_id, depth=row.depth)
    ledger.put("summary", summary.turn_id, encode_raw(placed))


def advance_head(ledger: Ledger, head: SessionHead) -> SessionHead:
    """Count a write to the session and return `head` at its new version."""
    session = session_row(ledger, head.session_id)
    ledger.put_session(replace(session, version=session.version + 1))
    return replace(head, version=session.version + 1)


def abandon_pending(ledger: Ledger, branch_id: str) -> None:
    """Mark the pending turn of a branch as abandoned, if there is one."""
    branch = ledger.branches[branch_id]
    if branch.pending is not None:
        ledger.put("turn", branch.pending, replace(ledger.turns[branch.pending], status=TurnStatus.ABANDONED))
        ledger.put("branch", branch_id, replace(branch, pending=None))


def close_pending(ledger: Ledger, head: SessionHead) -> SessionHead:
    """Commit the pending turn after a head without a reply, if there is one; return the head after it."""
    turn_id = ledger.branches[head.branch_id].pending
    if turn_id is None:
        return head
    record = read_turn(ledger, head.session_id, turn_id)
    record = replace(record, status=TurnStatus.COMMITTED, messages=mark_unanswered(record.messages))
    ledger.put("turn", turn_id, turn_row(record))
    ledger.drop("draft", turn_id)
    _finish_commit(ledger, record, head_state(ledger, head.branch_id), None)
    return read_head(ledger, head.session_id, head.branch_id)


def _finish_commit(ledger: Ledger, record: TurnRecord, before: JsonText, state: Mapping[str, Any] | None) -> None:
    """Complete a commit: write the turn's messages and state, and move the head of its branch."""
    insert_messages(ledger, record)
    move_tip(ledger, record.branch_id, record.turn_id, record.depth)
    if state is not None or record.ops:
        _write_state(ledger, record, before, state)


def _write_state(ledger: Ledger, record: TurnRecord, before: JsonText, state: Mapping[str, Any] | None) -> None:
    """Update the head state; write a snapshot after every fifty changes, and wherever the ops do not lead to `state`."""
    try:
        replayed = encode_raw_tree(replay_ops(decode_raw(before, dict), record.ops)) if record.ops else before
    except StateOpError:
        if state is None:
            raise
        replayed = None
    after = encode_raw_tree(state) if state is not None else replayed
    if after is None or after == replayed == before:
        ledger.states[record.branch_id] = before
        return
    branch = ledger.branches[record.branch_id]
    changes = 0 if after != replayed or branch.changes + 1 >= SNAPSHOT_EVERY else branch.changes + 1
    if changes == 0:
        _snapshot(ledger, record.branch_id, record.depth, after)
    ledger.put("branch", record.branch_id, replace(branch, changes=changes))
    ledger.states[record.branch_id] = after


def _snapshot(ledger: Ledger, branch_id: str, depth: int, state: JsonText) -> None:
    row = SnapshotRow(branch_id=branch_id, depth=depth, state=state)
    ledger.put("snapshot", snapshot_key(branch_id, depth), row)


def _head_of_turn(ledger: Ledger, record: TurnRecord) -> SessionHead:
    return read_head(ledger, record.session_id, ledger.turns[record.turn_id].branch_id)
