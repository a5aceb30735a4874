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
from mnemosyne.privacy.scrub import Scrubber
from mnemosyne.privacy.session_scrubber import PARTS, SessionScrubber
from mnemosyne.schema.document import SessionDocument
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.record import PathSummary, Prefetch
from mnemosyne.schema.session import Message
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
    **PARTS,
    "late": (Prefetch, "prefetches"),
    "summary": (PathSummary, "summaries"),
    "document": (SessionDocument, "documents"),
}
_PAPERS = {"plan": "plans", "receipt": "receipts", "prompt": "prompts", "report": "reports"}


@dataclass(kw_only=True, slots=True)
class ScrubResult:
    """The rebuilt session, the number of changes by kind, and the entries that an index must drop."""

    ledger: Ledger
    counts: Counter[str] = field(default_factory=Counter)
    entry_ids: list[str] = field(default_factory=list)


def scrub_ledger(ledger: Ledger, session_id: str, scrubber: SessionScrubber) -> ScrubResult:
    """Return a session after the erasure, with the next version."""
    done = ScrubResult(ledger=Ledger(floor=ledger.sequence))
    late: list[Change] = []
    for change in ledger.rows():
        new = _clean(change, scrubber, done)
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
        _snapshot_changed_states(ledger, done.ledger, session_id, scrubber)
    session = done.ledger.session
    if session is not None:
        row = replace(session, version=session.version + 1)
        done.ledger.apply((Change(table="session", key="", row=row),))
    return done


def _is_indexed(change: Change) -> bool:
    return not isinstance(change.row, MessageRow) or change.row.recalled is not RecallMark.NO


def _clean(change: Change, scrubber: SessionScrubber, done: ScrubResult) -> Change | None:
    """Return a row after the erasure (the same row if nothing changes), or None if it is removed entirely."""
    row, table = change.row, change.table
    if isinstance(row, MessageRow):
        return _clean_message(change, row, scrubber, done)
    if isinstance(row, EntryRow):
        return _change_row(change, row, "body", _value(scrubber.derived, row.body, MemoryEntry), "entries", done)
    if isinstance(row, SnapshotRow):
        return _change_row(change, row, "state", _tree(scrubber.others, row.state), "states", done)
    if isinstance(row, TurnRow):
        return _change_row(change, row, "ops", _tree(scrubber.others, row.ops), "states", done)
    if isinstance(row, EvidenceRow):
        return _clean_evidence(change, row, scrubber, done)
    if not isinstance(row, JsonText) or row == NO_SUMMARY:
        return change
    if table in _VALUES:
        kind, counted = _VALUES[table]
        if table == "block" and scrubber.rests_on_erased(decode_raw(row, kind)):
            done.counts[counted] += 1
            return None
        return _body(change, row, _value(scrubber.derived, row, kind), counted, done)
    if table == "draft":
        return _body(change, row, _clean_draft(row, scrubber), "drafts", done)
    if table in _PAPERS:
        return _body(change, row, _tree(scrubber.derived, row), _PAPERS[table], done)
    return _body(change, row, _tree(scrubber.others, row), table, done)


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


def _clean_message(change: Change, row: MessageRow, scrubber: SessionScrubber, done: ScrubResult) -> Change:
    message = decode_raw(row.body, Message)
    clean = scrubber.message(message)
    if clean is message:
        return change
    done.counts["messages"] += 1
    recalled = row.recalled
    if scrubber.is_theirs(message) and recalled is not RecallMark.NO:
        recalled = RecallMark.NO_MORE
    return replace(change, row=replace(row, recalled=recalled, body=encode_raw(clean)))


def _clean_draft(body: JsonText, scrubber: SessionScrubber) -> JsonText:
    messages = decode_raw(body, tuple[Message, ...])
    clean = scrubber.messages(messages)
    return body if clean is messages else encode_raw(clean)


def _clean_evidence(change: Change, row: EvidenceRow, scrubber: SessionScrubber, done: ScrubResult) -> Change | None:
    if change.key in scrubber.evidence_ids:
        done.counts["evidences"] += 1
        return None
    evidence = decode_raw(row.body, Evidence)
    clean = scrubber.evidence(evidence)
    body = row.body if clean is evidence else encode_raw(clean)
    return _change_row(change, row, "body", body, "evidences", done)


def _snapshot_changed_states(old: Ledger, new: Ledger, session_id: str, scrubber: SessionScrubber) -> None:
    """Write a snapshot at every turn whose ops were cleaned, or no longer lead from the cleaned state before them to
    the one after.
    """
    for branch_id, changing in new.changing.items():
        path, before = new.paths[branch_id], new.branches[branch_id].fork_depth
        for depth in changing:
            turn_id = path[depth - before - 1]
            if new.turns[turn_id].ops == old.turns[turn_id].ops and _is_reached_by_ops(new, session_id, turn_id):
                continue
            state = rebuild_state(old, session_id, turn_id)[0]
            row = SnapshotRow(branch_id=branch_id, depth=depth, state=encode_raw(scrubber.others.tree(state)))
            new.apply((Change(table="snapshot", key=snapshot_key(branch_id, depth), row=row),))


def _is_reached_by_ops(ledger: Ledger, session_id: str, turn_id: str) -> bool:
    try:
        rebuild_state(ledger, session_id, turn_id)
    except StateOpError:
        return False
    return True
