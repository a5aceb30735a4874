"""Reads a ledger: its rows as values of the schema.

None of these functions changes anything. They walk the spans of a lineage, newest first, and stop when they have
enough. So the cost grows with the requested amount and the number of forks on the path, never with the length of the
session.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from mnemosyne.chains.json_patch import replay_ops
from mnemosyne.chains.messages.message_ids import message_entry
from mnemosyne.chains.turn_tree import BASE_BRANCH, Ops, is_on_path
from mnemosyne.core.codec import JsonText, decode_raw, encode_raw
from mnemosyne.core.errors import (
    BranchNotFoundError,
    DamagedRecordError,
    SessionNotFoundError,
    StateOpError,
    TurnNotFoundError,
    UnreadableError,
)
from mnemosyne.damage import LostTree
from mnemosyne.schema.document import Meta, ModelUsage, SessionDocument, Task
from mnemosyne.schema.memory import EMPTY, Chain, MemoryEntry
from mnemosyne.schema.record import (
    WINDOW_USAGES,
    PathSummary,
    Prefetch,
    SequencedEntry,
    SessionWindow,
    TurnRecord,
)
from mnemosyne.schema.session import BranchSpan, Message, SessionHead, TurnStatus, WindowMessage
from mnemosyne.stores.ledger.ledger import LOST, Ledger
from mnemosyne.stores.ledger.rows import BranchRow, RecallMark, SessionRow, TurnRow, snapshot_key

T = TypeVar("T")

NO_SUMMARY = JsonText(b"{}")
"""The row of a turn whose document had no summary: summaries of older turns no longer apply."""


def session_row(ledger: Ledger, session_id: str) -> SessionRow:
    """Return the session's own row; SessionNotFoundError."""
    if ledger.session is None:
        raise SessionNotFoundError(session_id)
    return ledger.session


def branch_row(ledger: Ledger, session_id: str, branch_id: str) -> BranchRow:
    """Return a branch; BranchNotFoundError."""
    row = ledger.branches.get(branch_id)
    if row is None:
        raise BranchNotFoundError(session_id, branch_id)
    return row


def read_head(ledger: Ledger, session_id: str, branch_id: str | None = None) -> SessionHead:
    """Return the head of a branch (None = the active one); SessionNotFoundError, BranchNotFoundError."""
    session = session_row(ledger, session_id)
    branch_id = session.active_branch if branch_id is None else branch_id
    tip = branch_row(ledger, session_id, branch_id)
    return SessionHead(
        session_id=session_id,
        world_id=session.world_id,
        branch_id=branch_id,
        turn_id=tip.head_turn,
        depth=tip.head_depth,
        lineage=read_lineage(ledger, branch_id, tip.head_depth),
        version=session.version,
    )


def read_lineage(ledger: Ledger, branch_id: str, depth: int) -> tuple[BranchSpan, ...]:
    """Return the ancestors of a branch's turn at `depth`, newest branch first."""
    spans = [BranchSpan(branch_id=branch_id, upto_depth=depth)]
    row = ledger.branches[branch_id]
    while row.parent is not None:
        spans.append(BranchSpan(branch_id=row.parent, upto_depth=row.fork_depth))
        row = ledger.branches[row.parent]
    return tuple(spans)


def read_branches(ledger: Ledger, session_id: str) -> tuple[SessionHead, ...]:
    """Return the head of every branch: the active one first, the others as they were opened."""
    active = read_head(ledger, session_id)
    others = sorted(
        (name for name in ledger.branches if name != active.branch_id), key=lambda name: ledger.branches[name].ordinal
    )
    return (active, *(read_head(ledger, session_id, name) for name in others))


def read_committed(ledger: Ledger, session_id: str, turn_ids: Sequence[str]) -> frozenset[str]:
    """Return those of these ids that are ids of committed turns."""
    session_row(ledger, session_id)
    rows = ((turn_id, ledger.turns.get(turn_id)) for turn_id in turn_ids)
    return frozenset(turn_id for turn_id, row in rows if row is not None and row.status is TurnStatus.COMMITTED)


def path_back(ledger: Ledger, lineage: Sequence[BranchSpan]) -> Iterator[str]:
    """Yield the ids of the committed turns of a lineage, newest first."""
    for span in lineage:
        path, before = ledger.paths.get(span.branch_id, []), ledger.branches[span.branch_id].fork_depth
        for place in range(min(span.upto_depth - before, len(path)) - 1, -1, -1):
            if path[place] != LOST:
                yield path[place]


def read_window(ledger: Ledger, session_id: str, message_limit: int, branch_id: str | None) -> SessionWindow:
    """Return the window of a session; SessionNotFoundError, BranchNotFoundError."""
    head = read_head(ledger, session_id, branch_id)
    late = ledger.bodies("late").get(head.branch_id)
    pending = ledger.branches[head.branch_id].pending
    summary = newest_summary_row(ledger, head)
    return SessionWindow(
        head=head,
        messages=_newest_messages(ledger, head, message_limit),
        state=decode_raw(head_state(ledger, head.branch_id), dict),
        previous=_turn_or_none(ledger, session_id, head.turn_id),
        pending=_turn_or_none(ledger, session_id, pending),
        prefetch=None if late is None else read_or_none(ledger, late, Prefetch, f"late/{head.branch_id}"),
        summary=None
        if summary is None or summary == NO_SUMMARY
        else read_or_none(ledger, summary, PathSummary, "summary"),
        tasks=tuple(read_items(ledger, "task", Task)),
        usages=_newest_usages(ledger),
        meta=_meta(ledger),
    )


def _meta(ledger: Ledger) -> Meta | None:
    body = ledger.bodies("document").get("frame")
    frame = None if body is None else read_or_none(ledger, body, SessionDocument, "document")
    return None if frame is None else frame.meta


def _newest_usages(ledger: Ledger) -> tuple[ModelUsage, ...]:
    found = (
        read_or_none(ledger, body, ModelUsage, "model_usage")
        for body in ledger.newest_bodies("model_usage", WINDOW_USAGES)
    )
    return tuple(usage for usage in found if usage is not None)


def _turn_or_none(ledger: Ledger, session_id: str, turn_id: str | None) -> TurnRecord | None:
    """Return a turn that a branch names, None for none and for one whose row is missing."""
    if turn_id is None:
        return None
    if turn_id not in ledger.turns:
        ledger.passed_by.append((f"Turn {turn_id!r} of session {session_id!r}", "its row is missing"))
        return None
    return read_turn(ledger, session_id, turn_id)


def read_or_none(ledger: Ledger, body: JsonText, kind: type[T], name: str) -> T | None:
    """Return the value of a body; None where it cannot be read, which is noted."""
    try:
        return decode_raw(body, kind)
    except UnreadableError as error:
        ledger.passed_by.append((name, str(error)))
        return None


def read_items(ledger: Ledger, table: str, kind: type[T]) -> Iterator[T]:
    """Yield the rows of a table of bodies that can be read, in the order of first writing."""
    for name, body in ledger.bodies(table).items():
        if (item := read_or_none(ledger, body, kind, f"{table}/{name}")) is not None:
            yield item


def _newest_messages(ledger: Ledger, head: SessionHead, limit: int) -> tuple[WindowMessage, ...]:
    newest: list[WindowMessage] = []
    for turn_id in path_back(ledger, head.lineage):
        if len(newest) >= limit:
            break
        newest.extend(reversed(messages_of_turn(ledger, turn_id)))
    return tuple(reversed(newest[:limit]))


def messages_of_turn(ledger: Ledger, turn_id: str) -> list[WindowMessage]:
    """Return the messages of a committed turn with their place."""
    row = ledger.turns[turn_id]
    said = [ledger.messages[message_id] for message_id in ledger.spoken.get(turn_id, ())]
    found = (
        read_or_none(ledger, each.body, Message, f"message {each.place} of turn {turn_id!r}")
        for each in sorted(said, key=lambda message: message.place)
    )
    return [
        WindowMessage(message=message, turn_id=turn_id, branch_id=row.branch_id, depth=row.depth)
        for message in found
        if message is not None
    ]


def newest_summary_row(ledger: Ledger, head: SessionHead) -> JsonText | None:
    """Return the row of the newest rolling summary on the path (NO_SUMMARY: a document had none), or None."""
    for span in head.lineage:
        depths = ledger.summed.get(span.branch_id, [])
        place = bisect_right(depths, span.upto_depth)
        if place:
            before = ledger.branches[span.branch_id].fork_depth
            return ledger.bodies("summary")[ledger.paths[span.branch_id][depths[place - 1] - before - 1]]
    return None


def read_turn(ledger: Ledger, session_id: str, turn_id: str) -> TurnRecord:
    """Return one turn with everything stored of it; SessionNotFoundError, TurnNotFoundError."""
    session_row(ledger, session_id)
    row = ledger.turns.get(turn_id)
    if row is None:
        raise TurnNotFoundError(session_id, turn_id)
    return _record(ledger, session_id, turn_id, row, with_blobs=True)


def read_turns(
    ledger: Ledger, session_id: str, limit: int, branch_id: str | None, before_depth: int | None
) -> tuple[TurnRecord, ...]:
    """Return the newest committed turns on the path, oldest first, without prompt, receipt and report."""
    head = read_head(ledger, session_id, branch_id)
    lineage = head.lineage
    if before_depth is not None:
        lineage = tuple(
            BranchSpan(branch_id=span.branch_id, upto_depth=min(span.upto_depth, before_depth - 1)) for span in lineage
        )
    newest: list[TurnRecord] = []
    for turn_id in path_back(ledger, lineage):
        if len(newest) >= limit:
            break
        newest.append(_record(ledger, session_id, turn_id, ledger.turns[turn_id], with_blobs=False))
    return tuple(reversed(newest))


def _record(ledger: Ledger, session_id: str, turn_id: str, row: TurnRow, *, with_blobs: bool) -> TurnRecord:
    def blob(table: str) -> Mapping[str, Any] | None:
        body = ledger.bodies(table).get(turn_id)
        try:
            return None if body is None else decode_raw(body, dict)
        except UnreadableError as error:
            what = f"The {table} of turn {turn_id!r} of session {session_id!r}"
            ledger.passed_by.append((what, str(error)))
            return LostTree(DamagedRecordError("", what, str(error)))

    draft = ledger.bodies("draft").get(turn_id)
    messages = tuple(placed.message for placed in messages_of_turn(ledger, turn_id))
    if draft is not None:
        messages = decode_raw(draft, tuple[Message, ...])
    return TurnRecord(
        turn_id=turn_id,
        session_id=session_id,
        branch_id=row.branch_id,
        depth=row.depth,
        parent_id=row.parent_id,
        kind=row.kind,
        status=row.status,
        messages=messages,
        fingerprint=row.fingerprint,
        plan=blob("plan"),
        receipt=blob("receipt") if with_blobs else None,
        prompt=blob("prompt") if with_blobs else None,
        report=blob("report") if with_blobs else None,
        anchors=EMPTY if (anchors := blob("anchors")) is None else anchors,
        ops=read_or_none(ledger, row.ops, Ops, f"ops of turn {turn_id!r}") or (),
        created_at=row.created_at,
        origin_id=row.origin_id,
    )


def find_turns_aside(ledger: Ledger, head: SessionHead, turn_ids: Iterable[str]) -> frozenset[str]:
    """Return those of some turns that the session has, but not on the path to a head, nor as a copy on it."""

    def is_aside(turn_id: str) -> bool:
        rows = [
            row for name in (turn_id, *ledger.copies.get(turn_id, ())) if (row := ledger.turns.get(name)) is not None
        ]
        return bool(rows) and not any(is_on_path(head, row.branch_id, row.depth, row.status) for row in rows)

    return frozenset(filter(is_aside, turn_ids))


def committed_turn(ledger: Ledger, session_id: str, turn_id: str) -> TurnRow:
    """Return the row of a committed turn; SessionNotFoundError, TurnNotFoundError."""
    session_row(ledger, session_id)
    row = ledger.turns.get(turn_id)
    if row is None or row.status is not TurnStatus.COMMITTED:
        raise TurnNotFoundError(session_id, turn_id)
    return row


def head_state(ledger: Ledger, branch_id: str) -> JsonText:
    """Return the state at the head of a branch; it is rebuilt once and then cached."""
    known = ledger.states.get(branch_id)
    if known is None:
        lineage = read_lineage(ledger, branch_id, ledger.branches[branch_id].head_depth)
        known = ledger.states[branch_id] = encode_raw(_rebuild(ledger, lineage)[0])
    return known


def rebuild_state(ledger: Ledger, session_id: str, turn_id: str | None) -> tuple[dict[str, Any], int]:
    """Return the state after a committed turn (None = before the first) and how many changing turns were replayed.

    It starts from the nearest snapshot on the path, so the replay is short whatever the length of the session.
    """
    session_row(ledger, session_id)
    lineage: tuple[BranchSpan, ...] = ()
    if turn_id is not None:
        row = committed_turn(ledger, session_id, turn_id)
        lineage = read_lineage(ledger, row.branch_id, row.depth)
    return _rebuild(ledger, lineage)


def _rebuild(ledger: Ledger, lineage: Sequence[BranchSpan]) -> tuple[dict[str, Any], int]:
    logs: list[JsonText] = []
    base = ledger.snapshots[snapshot_key(BASE_BRANCH, 0)]
    for span in lineage:
        depths = ledger.snapshot_depths.get(span.branch_id, [])
        place = bisect_right(depths, span.upto_depth)
        since = depths[place - 1] if place else -1
        changing, path = ledger.changing.get(span.branch_id, []), ledger.paths.get(span.branch_id, [])
        before = ledger.branches[span.branch_id].fork_depth
        for at in range(bisect_right(changing, span.upto_depth) - 1, bisect_right(changing, since) - 1, -1):
            logs.append(ledger.turns[path[changing[at] - before - 1]].ops)
        if place:
            base = ledger.snapshots[snapshot_key(span.branch_id, since)]
            break
    ops_in_order = [op for log in reversed(logs) for op in decode_raw(log, Ops)]
    state = decode_raw(base.state, dict)
    if not ledger.is_damaged:
        return (replay_ops(state, ops_in_order) if ops_in_order else state), len(logs)
    for op in ops_in_order:
        try:
            state = replay_ops(state, [op])
        except StateOpError as error:
            ledger.passed_by.append(("A change of the state", f"it does not fit what is left: {error}"))
    return state, len(logs)


def read_entries(ledger: Ledger, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
    """Return complete entries in the order of `entry_ids`; ids that are unknown, deleted or not recalled are left out."""
    found: list[MemoryEntry] = []
    for entry_id in entry_ids:
        row, message = ledger.entries.get(entry_id), ledger.messages.get(entry_id)
        if row is not None and not row.deleted:
            found.append(decode_raw(row.body, MemoryEntry))
        elif message is not None and message.recalled is RecallMark.YES:
            found.append(_message_entry(ledger, scope, entry_id))
    return tuple(found)


def read_entries_after(
    ledger: Ledger, scope: str, chain: Chain, sequence: int, limit: int
) -> tuple[SequencedEntry, ...]:
    """Return entries written after `sequence`, in the order of writing; those of the history chain are messages."""
    found: list[SequencedEntry] = []
    if chain is Chain.HISTORY:
        walk = ledger.recalled
        start = bisect_right(walk, sequence, key=lambda message_id: ledger.messages[message_id].sequence)
        return tuple(
            SequencedEntry(
                sequence=ledger.messages[message_id].sequence,
                entry=_message_entry(ledger, scope, message_id),
                deleted=ledger.messages[message_id].recalled is RecallMark.NO_MORE,
            )
            for message_id in walk[start : start + max(limit, 0)]
        )
    for number, _, row in ledger.entries_from(chain, sequence):
        if len(found) >= limit:
            break
        found.append(SequencedEntry(sequence=number, entry=decode_raw(row.body, MemoryEntry), deleted=row.deleted))
    return tuple(found)


def read_chains_written_after(
    ledgers: Mapping[str, Ledger], after: Mapping[tuple[str, Chain], int]
) -> frozenset[tuple[str, Chain]]:
    """Return those of the given (scope, chain) in which something was written after the sequence given with each."""
    return frozenset(
        (scope, chain)
        for (scope, chain), sequence in after.items()
        if read_entries_after(ledgers[scope], scope, chain, sequence, 1)
    )


def read_gated_entries(ledgers: Sequence[Ledger]) -> tuple[MemoryEntry, ...]:
    """Return the entries of these scopes that have viewers or conditions, ordered by id."""
    found = [
        decode_raw(row.body, MemoryEntry)
        for ledger in ledgers
        for row in ledger.entries.values()
        if row.restricted and not row.deleted
    ]
    return tuple(sorted(found, key=lambda entry: (entry.entry_id, entry.scope)))


def _message_entry(ledger: Ledger, scope: str, message_id: str) -> MemoryEntry:
    row = ledger.messages[message_id]
    turn = ledger.turns[row.turn_id]
    return message_entry(scope, row.turn_id, turn.branch_id, turn.depth, decode_raw(row.body, Message))
