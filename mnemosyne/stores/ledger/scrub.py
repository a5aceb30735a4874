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
from mnemosyne.privacy.places import CONTENTS
from mnemosyne.privacy.session_scrubber import SessionScrubber
from mnemosyne.schema.session import Message
from mnemosyne.stores.ledger.ledger import Ledger
from mnemosyne.stores.ledger.reads import NO_SUMMARY, rebuild_state
from mnemosyne.stores.ledger.rows import (
    BODY_OF,
    CONTENT_OF,
    Change,
    EntryRow,
    EvidenceRow,
    MessageRow,
    RecallMark,
    SnapshotRow,
    snapshot_key,
)


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
    row, content = change.row, CONTENT_OF.get(change.table)
    if content is None or row is None or row == NO_SUMMARY:
        return change
    if isinstance(row, EvidenceRow) and change.key in scrubber.evidence_ids:
        done.counts["evidences"] += 1
        return None
    column = BODY_OF.get(change.table)
    old = row if isinstance(row, JsonText) else getattr(row, str(column))
    kind = CONTENTS[content].kind
    value = decode_raw(old, object if kind is None else tuple[Message, ...] if content == "draft" else kind)
    if scrubber.rests_on_erased(value):
        done.counts[CONTENTS[content].counted] += 1
        if isinstance(row, EntryRow):
            done.entry_ids.append(change.key)
        return None
    clean = scrubber.clean(content, value, change.key)
    if clean is value:
        return change
    done.counts[CONTENTS[content].counted] += 1
    if isinstance(row, JsonText):
        return replace(change, row=encode_raw(clean))
    changes: dict[str, Any] = {str(column): encode_raw(clean)}
    if isinstance(row, MessageRow) and scrubber.is_theirs(value) and row.recalled is not RecallMark.NO:
        changes["recalled"] = RecallMark.NO_MORE
    if isinstance(row, EvidenceRow):
        changes["uri"] = clean.source.uri
    return replace(change, row=replace(row, **changes))


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
