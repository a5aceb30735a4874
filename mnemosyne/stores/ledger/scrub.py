"""Changes that an erasure makes in a session that stays.

Every table of a ledger is listed here once, with what an erasure does to it. The ledger is rebuilt row by row, so
nothing of the old one is left in it. Changed messages and entries get a new number, so that every index that follows
the order of writing notices them. The module knows rows and the scrubber, never where a ledger is stored.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from mnemosyne.core.codec import JsonText, decode_raw, encode_raw
from mnemosyne.core.errors import StateOpError
from mnemosyne.privacy.scrub import Scrubber, erase_message, without_refs
from mnemosyne.schema.document import ModelUsage, SessionDocument, Task, ToolCall
from mnemosyne.schema.evidence import ContextBlock, Evidence, EvidenceType, SourceKind
from mnemosyne.schema.memory import MemoryEntry, Trust
from mnemosyne.schema.record import PathSummary, Prefetch
from mnemosyne.schema.session import AuthorKind, Message
from mnemosyne.stores.ledger.ledger import Ledger
from mnemosyne.stores.ledger.reads import NO_SUMMARY, rebuild_state
from mnemosyne.stores.ledger.rows import (
    Change,
    EntryRow,
    EvidenceRow,
    MessageRow,
    RecallMark,
    SnapshotRow,
    TurnRow,
    snapshot_key,
)

_VALUES: dict[str, tuple[Any, str]] = {
    "block": (ContextBlock, "blocks"),
    "task": (Task, "tasks"),
    "tool_call": (ToolCall, "tool_calls"),
    "model_usage": (ModelUsage, "model_usage"),
    "late": (Prefetch, "prefetches"),
    "summary": (PathSummary, "summaries"),
    "document": (SessionDocument, "documents"),
}
_PAPERS = {"plan": "plans", "receipt": "receipts", "prompt": "prompts", "report": "reports"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ScrubTask:
    """How to clean one session that stays.

    `derived` cleans what was made from the erased texts (receipts, prompts, summaries, …), `others` what others said or
    what belongs to the story: there a short text is not evidence of the erased one.
    """

    session_id: str
    derived: Scrubber
    others: Scrubber
    user_id: str | None = None
    evidence_ids: frozenset[str] = frozenset()


@dataclass(kw_only=True, slots=True)
class ScrubResult:
    """The rebuilt session, the number of changes by kind, and the entries that an index must drop."""

    ledger: Ledger
    counts: Counter[str] = field(default_factory=Counter)
    entry_ids: list[str] = field(default_factory=list)


def is_author(message: Message, user_id: str) -> bool:
    """Return whether a user is the author of a message."""
    author = message.author
    return author is not None and author.kind is AuthorKind.USER and author.id == user_id


def scrub_ledger(ledger: Ledger, scrubbing: ScrubTask) -> ScrubResult:
    """Return a session after the erasure, with the next version."""
    done = ScrubResult(ledger=Ledger(floor=ledger.sequence))
    late: list[Change] = []
    for change in ledger.rows():
        new = _clean(change, scrubbing, done)
        if new is None:
            continue
        moves = new is not change and isinstance(new.row, MessageRow | EntryRow)
        if moves:
            late.append(new)
            if _is_indexed(change):
                done.entry_ids.append(new.key)
        else:
            done.ledger.apply((new,))
    for change in late:
        row = change.row
        if isinstance(row, MessageRow | EntryRow):
            row = replace(row, sequence=done.ledger.next_sequence())
            done.ledger.apply((Change(table=change.table, key=change.key, row=row),))
    if done.counts["states"]:
        _snapshot_changed_states(ledger, done.ledger, scrubbing)
    session = done.ledger.session
    if session is not None:
        row = replace(session, version=session.version + 1)
        done.ledger.apply((Change(table="session", key="", row=row),))
    return done


def _is_indexed(change: Change) -> bool:
    return not isinstance(change.row, MessageRow) or change.row.recalled is not RecallMark.NO


def _clean(change: Change, scrubbing: ScrubTask, done: ScrubResult) -> Change | None:
    """Return a row after the erasure (the same row if nothing changes), or None if it is removed entirely."""
    row, table = change.row, change.table
    if isinstance(row, MessageRow):
        return _clean_message(change, row, scrubbing, done)
    if isinstance(row, EntryRow):
        return _change_row(change, row, "body", _value(scrubbing.derived, row.body, MemoryEntry), "entries", done)
    if isinstance(row, SnapshotRow):
        return _change_row(change, row, "state", _tree(scrubbing.others, row.state), "states", done)
    if isinstance(row, TurnRow):
        return _change_row(change, row, "ops", _tree(scrubbing.others, row.ops), "states", done)
    if isinstance(row, EvidenceRow):
        return _clean_evidence(change, row, scrubbing, done)
    if not isinstance(row, JsonText) or row == NO_SUMMARY:
        return change
    if table in _VALUES:
        kind, counted = _VALUES[table]
        if table == "block" and _rests_on_erased(decode_raw(row, ContextBlock), scrubbing):
            done.counts[counted] += 1
            return None
        return _body(change, row, _value(scrubbing.derived, row, kind), counted, done)
    if table == "draft":
        return _body(change, row, _clean_draft(row, scrubbing), "drafts", done)
    if table in _PAPERS:
        return _body(change, row, _tree(scrubbing.derived, row), _PAPERS[table], done)
    return _body(change, row, _tree(scrubbing.others, row), table, done)


def _body(change: Change, old: JsonText, new: JsonText, counted: str, done: ScrubResult) -> Change:
    if new is old:
        return change
    done.counts[counted] += 1
    return replace(change, row=new)


def _change_row(change: Change, row: Any, name: str, new: JsonText, counted: str, done: ScrubResult) -> Change:
    if new is getattr(row, name):
        return change
    done.counts[counted] += 1
    return replace(change, row=replace(row, **{name: new}))


def _tree(scrubber: Scrubber, body: JsonText) -> JsonText:
    tree = decode_raw(body, object)
    clean = scrubber.tree(tree)
    return body if clean is tree else encode_raw(clean)


def _value(scrubber: Scrubber, body: JsonText, kind: Any) -> JsonText:
    value = decode_raw(body, kind)
    clean = scrubber.value(value)
    return body if clean is value else encode_raw(clean)


def _clean_message(change: Change, row: MessageRow, scrubbing: ScrubTask, done: ScrubResult) -> Change:
    message = decode_raw(row.body, Message)
    clean = _scrub_message(message, scrubbing)
    if clean is message:
        return change
    done.counts["messages"] += 1
    gone = scrubbing.user_id is not None and is_author(message, scrubbing.user_id)
    recalled = RecallMark.NO_MORE if gone and row.recalled is not RecallMark.NO else row.recalled
    return replace(change, row=replace(row, recalled=recalled, body=encode_raw(clean)))


def _scrub_message(message: Message, scrubbing: ScrubTask) -> Message:
    if scrubbing.user_id is not None and is_author(message, scrubbing.user_id):
        return erase_message(message)
    kept = without_refs(message.refs, scrubbing.evidence_ids)
    clean = scrubbing.others.value(message)
    return clean if kept is message.refs else replace(clean, refs=kept)


def _clean_draft(body: JsonText, scrubbing: ScrubTask) -> JsonText:
    messages = decode_raw(body, tuple[Message, ...])
    clean = tuple(_scrub_message(message, scrubbing) for message in messages)
    return body if all(new is old for new, old in zip(clean, messages, strict=True)) else encode_raw(clean)


def _clean_evidence(change: Change, row: EvidenceRow, scrubbing: ScrubTask, done: ScrubResult) -> Change | None:
    if change.key in scrubbing.evidence_ids:
        done.counts["evidences"] += 1
        return None
    evidence = decode_raw(row.body, Evidence)
    of_users = evidence.type is EvidenceType.USER_INPUT or evidence.source.kind is SourceKind.USER
    # What a turn recalled of a user's messages is a copy of them, however short they are.
    of_users = of_users or evidence.trust is Trust.USER
    scrubber = scrubbing.derived if of_users and scrubbing.user_id is not None else scrubbing.others
    return _change_row(change, row, "body", _value(scrubber, row.body, Evidence), "evidences", done)


def _rests_on_erased(block: ContextBlock, scrubbing: ScrubTask) -> bool:
    return bool(block.refs) and not without_refs(block.refs, scrubbing.evidence_ids)


def _snapshot_changed_states(old: Ledger, new: Ledger, scrubbing: ScrubTask) -> None:
    """Write a snapshot at every turn whose ops were cleaned, or no longer lead from the cleaned state before them to
    the one after.
    """
    for branch_id, changing in new.changing.items():
        path, before = new.paths[branch_id], new.branches[branch_id].fork_depth
        for depth in changing:
            turn_id = path[depth - before - 1]
            if new.turns[turn_id].ops == old.turns[turn_id].ops and _is_reached_by_ops(
                new, scrubbing.session_id, turn_id
            ):
                continue
            state = rebuild_state(old, scrubbing.session_id, turn_id)[0]
            row = SnapshotRow(branch_id=branch_id, depth=depth, state=encode_raw(scrubbing.others.tree(state)))
            new.apply((Change(table="snapshot", key=snapshot_key(branch_id, depth), row=row),))


def _is_reached_by_ops(ledger: Ledger, session_id: str, turn_id: str) -> bool:
    try:
        rebuild_state(ledger, session_id, turn_id)
    except StateOpError:
        return False
    return True
