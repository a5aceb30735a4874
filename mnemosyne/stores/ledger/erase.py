"""Erasure: removes data from all ledgers, and searches to prove it (seed 002 section 13; spec 3.6).

An erasure is one pure step from one dataset of ledgers to another. `mnemosyne.privacy.scrub` decides what is removed
from a text, `ledger.scrub` how the rows of a session that stays change. The module knows the meaning of rows, never
where they are stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any
from uuid import uuid4

from mnemosyne.chains.message_ids import session_of
from mnemosyne.core.codec import JsonText, decode_raw, format_time, to_plain
from mnemosyne.privacy.scrub import WORTH_SEEKING, is_distinctive, occurs_in_tree, subject_of, weight
from mnemosyne.privacy.session_scrubber import SessionScrubber, scrubber_of_evidence, scrubber_of_user, texts_written_by
from mnemosyne.schema.document import SessionDocument
from mnemosyne.schema.erasure import PACK_PLACE, AuditRecord, Erasure, ErasureOutcome
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import session_scope
from mnemosyne.schema.session import Message
from mnemosyne.stores.ledger.ledger import Ledger
from mnemosyne.stores.ledger.rows import PACK, Change
from mnemosyne.stores.ledger.scrub import scrub_ledger

_COUNTED = {
    "message": "messages",
    "turn": "turns",
    "evidence": "evidences",
    "summary": "summaries",
    "late": "prefetches",
    "branch": "branches",
    "block": "blocks",
    "task": "tasks",
    "tool_call": "tool_calls",
    "model_usage": "model_usage",
    "receipt": "receipts",
    "entry": "entries",
}
"""What is counted of a session that is deleted entirely, by table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """All ledgers of a tenant by scope, and its audit records, oldest first.

    `floor` is the highest sequence number that an erased row may have had.
    """

    ledgers: Mapping[str, Ledger]
    audits: tuple[AuditRecord, ...] = ()
    floor: int = 0

    def session_ids(self) -> tuple[str, ...]:
        """Return the ids of all sessions, sorted."""
        found = (session_of(scope) for scope in self.ledgers)
        return tuple(sorted(name for name in found if name is not None))


@dataclass(frozen=True, kw_only=True, slots=True)
class RewritePlan:
    """The changes of an erasure: ledgers that replace others (None: removed), and the audit record."""

    ledgers: Mapping[str, Ledger | None]
    audit: AuditRecord
    floor: int


@dataclass(kw_only=True, slots=True)
class _Tally:
    """The outcome of an erasure so far."""

    ledgers: dict[str, Ledger | None] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    sessions: list[str] = field(default_factory=list)
    entry_ids: dict[str, tuple[str, ...]] = field(default_factory=dict)
    texts: dict[str, None] = field(default_factory=dict)
    floor: int = 0


def erase(dataset: Dataset, erasure: Erasure) -> tuple[ErasureOutcome, RewritePlan]:
    """Return the changes of an erasure to a dataset; ValueError unless it names exactly one subject."""
    kind, subject_hash = subject_of(erasure)
    format_time(erasure.at)
    tally = _Tally(floor=dataset.floor)
    if kind == "session":
        scope = session_scope(str(erasure.session_id))
        if scope in dataset.ledgers:
            _drop(dataset, scope, tally)
    elif kind == "user":
        _erase_user(dataset, str(erasure.user_id), tally)
    else:
        _erase_evidence(dataset, str(erasure.session_id), frozenset(erasure.evidence_ids), tally)
    counts = {kind: number for kind, number in tally.counts.items() if number}
    audit = AuditRecord(
        audit_id=uuid4().hex,
        at=erasure.at,
        kind=kind,
        subject_hash=subject_hash,
        reason=erasure.reason,
        counts=counts,
    )
    outcome = ErasureOutcome(
        audit_id=audit.audit_id,
        counts=counts,
        sessions=tuple(tally.sessions),
        entry_ids={scope: ids for scope, ids in tally.entry_ids.items() if ids},
        texts=_texts_to_prove(dataset, tally),
    )
    return outcome, RewritePlan(ledgers=tally.ledgers, audit=audit, floor=tally.floor)


def _texts_to_prove(dataset: Dataset, tally: _Tally) -> tuple[str, ...]:
    """Return the erased texts that a search must not find any more, without common words that others said too and texts
    that a world pack contains.
    """
    doubtful = [text for text in tally.texts if not is_distinctive(text)]
    common = set(_find_in_packs(dataset, tally.texts))
    if doubtful:
        left = {scope: tally.ledgers.get(scope, dataset.ledgers[scope]) for scope in dataset.ledgers}
        present = Dataset(ledgers={scope: ledger for scope, ledger in left.items() if ledger is not None})
        common |= {text for _, text in _find_occurrences(present, doubtful)}
    return tuple(text for text in tally.texts if weight(text) >= WORTH_SEEKING and text not in common)


def _find_in_packs(dataset: Dataset, texts: Iterable[str]) -> Iterator[str]:
    """Yield those of the texts that a world pack contains."""
    sought = [text for text in texts if text.strip()]
    for scope in dataset.ledgers if sought else ():
        if session_of(scope) is None:
            trees = [decode_raw(body, object) for body in dataset.ledgers[scope].bodies(PACK).values()]
            yield from (text for text in sought if occurs_in_tree((text,), trees))


def _drop(dataset: Dataset, scope: str, tally: _Tally) -> None:
    """Delete a session entirely."""
    ledger = dataset.ledgers[scope]
    tally.counts.update(_COUNTED[change.table] for change in ledger.rows() if change.table in _COUNTED)
    tally.counts["sessions"] += 1
    tally.sessions.append(str(session_of(scope)))
    tally.ledgers[scope] = None
    tally.floor = max(tally.floor, ledger.sequence)


def _erase_user(dataset: Dataset, user_id: str, tally: _Tally) -> None:
    """Delete the sessions of a user, and erase what the user wrote in all others."""
    for session_id in dataset.session_ids():
        scope = session_scope(session_id)
        ledger = dataset.ledgers[scope]
        if _owner(ledger) == user_id:
            _drop(dataset, scope, tally)
            continue
        texts = texts_written_by(user_id, _messages(ledger))
        if texts is not None:
            tally.texts.update(dict.fromkeys(texts))
            _scrub(dataset, scope, tally, scrubber_of_user(user_id, texts))


def _owner(ledger: Ledger) -> str | None:
    frame = ledger.bodies("document").get("frame")
    meta = None if frame is None else decode_raw(frame, SessionDocument).meta
    return None if meta is None or meta.actor is None else meta.actor.user_id


def _messages(ledger: Ledger) -> Iterator[Message]:
    """Yield all messages of a session, including those of pending turns."""
    for row in ledger.messages.values():
        yield decode_raw(row.body, Message)
    for draft in ledger.bodies("draft").values():
        yield from decode_raw(draft, tuple[Message, ...])


def _erase_evidence(dataset: Dataset, session_id: str, evidence_ids: frozenset[str], tally: _Tally) -> None:
    """Erase evidence items of a session, blocks that rest only on them, refs to them, and their text wherever it
    occurs.
    """
    scope = session_scope(session_id)
    if scope not in dataset.ledgers:
        return
    rows = [dataset.ledgers[scope].evidences.get(evidence_id) for evidence_id in sorted(evidence_ids)]
    contents = [decode_raw(row.body, Evidence).content for row in rows if row is not None]
    texts = tuple(dict.fromkeys(content for content in contents if content.strip()))
    tally.texts.update(dict.fromkeys(texts))
    _scrub(dataset, scope, tally, scrubber_of_evidence(evidence_ids, texts))


def _scrub(dataset: Dataset, scope: str, tally: _Tally, scrubber: SessionScrubber) -> None:
    done = scrub_ledger(dataset.ledgers[scope], str(session_of(scope)), scrubber)
    tally.ledgers[scope] = done.ledger
    tally.counts.update(done.counts)
    tally.entry_ids[scope] = tuple(done.entry_ids)
    tally.floor = max(tally.floor, done.ledger.sequence)


def find_text(dataset: Dataset, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the places (`table/session/key`, sorted) that contain any of the texts."""
    return tuple(sorted({place for place, _ in _find_occurrences(dataset, texts)}))


def _find_occurrences(dataset: Dataset, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    sought = [text for text in dict.fromkeys(texts) if text.strip()]
    for scope in dataset.ledgers:
        name = session_of(scope) or scope
        for change in dataset.ledgers[scope].rows():
            tree = [name, change.key, *_trees(change)]
            place = "/".join(part for part in (change.table, name, change.key) if part)
            if change.table == PACK:
                place = f"{PACK_PLACE}{name}"
            yield from ((place, text) for text in sought if occurs_in_tree((text,), tree))
    for record in dataset.audits:
        yield from ((f"audit/{record.audit_id}", text) for text in sought if occurs_in_tree((text,), to_plain(record)))


def _trees(change: Change) -> Iterator[Any]:
    """Yield the contents of a row, field by field."""
    row = change.row
    if row is None:
        return
    if isinstance(row, JsonText):
        yield decode_raw(row, object)
        return
    for each in fields(row):
        value = getattr(row, each.name)
        yield decode_raw(value, object) if isinstance(value, JsonText) else value
