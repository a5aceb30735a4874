"""Erasure: removes data from all ledgers, and searches to prove it (seed 002 section 13; spec 3.6).

An erasure is one pure step from one dataset of ledgers to another. `mnemosyne.privacy.scrub` decides what is removed
from a text, `ledger.scrub` how the rows of a session that stays change. The module knows the meaning of rows, never
where they are stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any
from uuid import uuid4

from mnemosyne.chains.messages.message_ids import session_of
from mnemosyne.core.codec import JsonText, decode_raw, encode, format_time
from mnemosyne.privacy.runs import WORTH_SEEKING, TextMatcher, is_distinctive, weight
from mnemosyne.privacy.scrub import subject_of
from mnemosyne.privacy.session_scrubber import (
    CopiedParts,
    PreviewTally,
    SessionScrubber,
    Source,
    erased_sources,
    find_copies,
    heirs_named,
    scrubber_of_evidence,
    scrubber_of_user,
    texts_written_by,
)
from mnemosyne.schema.document import SessionDocument
from mnemosyne.schema.erasure import (
    PACK_PLACE,
    AuditRecord,
    Erasure,
    ErasureOutcome,
    ErasurePreview,
    StoredRow,
)
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import MemoryEntry, is_profile_session, session_scope
from mnemosyne.schema.session import Message
from mnemosyne.stores.ledger.ledger import Ledger
from mnemosyne.stores.ledger.rows import PACK, Change, EntryRow
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

    `floor` is the highest sequence number that an erased row may have had. `raw` returns the bytes of a ledger as they are
    stored, where that is cheaper than reading the ledger (None: it is not).
    """

    ledgers: Mapping[str, Ledger]
    raw: Callable[[str], bytes] | None = None
    audits: tuple[AuditRecord, ...] = ()
    floor: int = 0

    def may_hold(self, scope: str, likely: Callable[[bytes], bool] | None) -> bool:
        """Return whether a ledger may hold what is sought, without reading it if its bytes show that."""
        return likely is None or self.raw is None or likely(self.raw(scope))

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
    touched: list[str] = field(default_factory=list)
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
            _erase_copies(dataset, tally.sessions, erased_sources(erasure, tally.sessions), tally)
    elif kind == "user":
        _erase_user(dataset, erasure, tally)
    else:
        _erase_evidence(dataset, str(erasure.session_id), frozenset(erasure.evidence_ids), tally)
        _erase_copies(dataset, (str(erasure.session_id),), erased_sources(erasure), tally)
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
        touched=tuple(tally.touched),
    )
    return outcome, RewritePlan(ledgers=tally.ledgers, audit=audit, floor=tally.floor)


def preview(dataset: Dataset, erasure: Erasure) -> ErasurePreview:
    """Return what an erasure would remove; nothing is changed. ValueError unless it names exactly one subject."""
    found = PreviewTally(erasure=erasure)
    for session_id in _concerned(dataset, session_id=erasure.session_id, user_id=erasure.user_id):
        ledger = dataset.ledgers[session_scope(session_id)]
        spoken = () if erasure.evidence_ids else _messages(ledger)
        items = [decode_raw(row.body, Evidence) for row in ledger.evidences.values()]
        found.add(session_id, _owner(ledger), [message for _, message in spoken], items)
    sources = erased_sources(erasure, found.whole)
    for heir in _find_heirs(dataset, (*found.whole, *found.touched)):
        found.add_copies(heir, _read_copies(dataset.ledgers[session_scope(heir)], sources))
    return found.preview()


def _concerned(dataset: Dataset, *, session_id: str | None = None, user_id: str | None = None) -> Iterator[str]:
    """Yield the sessions that an erasure may concern."""
    if session_id is not None:
        if session_scope(session_id) in dataset.ledgers:
            yield session_id
        return
    forms = tuple(dict.fromkeys((encode(user_id), encode(encode(user_id).decode())[1:-1])))
    for session_id in dataset.session_ids():
        if dataset.may_hold(session_scope(session_id), lambda data: any(form in data for form in forms)):
            yield session_id


def _texts_to_prove(dataset: Dataset, tally: _Tally) -> tuple[str, ...]:
    """Return the erased texts that a search of the touched sessions must not find any more, without common words that others
    said there too and texts that a world pack contains.
    """
    sought = [text for text in tally.texts if weight(text) >= WORTH_SEEKING]
    common = set(_find_in_packs(dataset, sought)) if sought else set[str]()
    doubtful = {text: TextMatcher([text], least=1) for text in sought if not is_distinctive(text)}
    for name in tally.touched if doubtful else ():
        ledger = tally.ledgers[session_scope(name)]
        for row in () if ledger is None else _rows(session_scope(name), ledger):
            common.update(text for text, each in doubtful.items() if text not in common and occurs_in_row(each, row))
    return tuple(text for text in sought if text not in common)


def _find_in_packs(dataset: Dataset, texts: Sequence[str]) -> Iterator[str]:
    """Yield those of the texts that a world pack contains."""
    matcher = TextMatcher(texts, least=1)
    for scope in dataset.ledgers:
        for body in dataset.ledgers[scope].bodies(PACK).values() if session_of(scope) is None else ():
            tree = decode_raw(body, object)
            if matcher.occurs_in_tree(tree):
                yield from (text for text in texts if TextMatcher([text], least=1).occurs_in_tree(tree))


def _drop(dataset: Dataset, scope: str, tally: _Tally) -> None:
    """Delete a session entirely."""
    ledger = dataset.ledgers[scope]
    tally.counts.update(_COUNTED[change.table] for change in ledger.rows() if change.table in _COUNTED)
    tally.counts["sessions"] += 1
    tally.sessions.append(str(session_of(scope)))
    tally.ledgers[scope] = None
    tally.floor = max(tally.floor, ledger.sequence)


def _erase_user(dataset: Dataset, erasure: Erasure, tally: _Tally) -> None:
    """Delete the sessions of a user, and erase in all others in which the user wrote what the user wrote anywhere, and in those
    that took memories along.
    """
    user_id, turns = str(erasure.user_id), dict[str, frozenset[str]]()
    for session_id in _concerned(dataset, user_id=user_id):
        ledger = dataset.ledgers[session_scope(session_id)]
        theirs = texts_written_by(user_id, _messages(ledger))
        if theirs is not None:
            tally.texts.update(dict.fromkeys(theirs[0]))
        if _owner(ledger) == user_id:
            if is_profile_session(session_id):
                items = (decode_raw(row.body, Evidence) for row in ledger.evidences.values())
                tally.texts.update((each.content, None) for each in items)
            _drop(dataset, session_scope(session_id), tally)
        elif theirs is not None:
            turns[session_id] = theirs[1]
    sources, copied = erased_sources(erasure, tally.sessions), list[str]()
    heirs = [each for each in _find_heirs(dataset, (*tally.sessions, *turns)) if each not in turns]
    for session_id in (*turns, *heirs):
        scope = session_scope(session_id)
        copies = _read_copies(dataset.ledgers[scope], sources)
        copied += copies.texts
        own = turns.get(session_id, frozenset())
        _scrub(dataset, scope, tally, scrubber_of_user(user_id, tally.texts, own, copies, sources))
    tally.texts.update(dict.fromkeys(copied))
    if not tally.touched:
        tally.texts.clear()


def _owner(ledger: Ledger) -> str | None:
    frame = ledger.bodies("document").get("frame")
    meta = None if frame is None else decode_raw(frame, SessionDocument).meta
    return None if meta is None or meta.actor is None else meta.actor.user_id


def _messages(ledger: Ledger) -> Iterator[tuple[str, Message]]:
    """Yield all messages of a session, each with the id of its turn, including those of pending turns."""
    for row in ledger.messages.values():
        yield row.turn_id, decode_raw(row.body, Message)
    for turn_id, draft in ledger.bodies("draft").items():
        for message in decode_raw(draft, tuple[Message, ...]):
            yield turn_id, message


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


def _find_heirs(dataset: Dataset, session_ids: Sequence[str]) -> list[str]:
    """Return the other sessions that took memories of these along, at first or at second hand."""
    known = list(session_ids)
    for session_id in known:
        ledger = dataset.ledgers.get(session_scope(session_id))
        rows = () if ledger is None else ledger.evidences.values()
        for heir in heirs_named(decode_raw(row.body, Evidence) for row in rows):
            if heir not in known and session_scope(heir) in dataset.ledgers:
                known.append(heir)
    return known[len(session_ids) :]


def _read_copies(ledger: Ledger, sources: frozenset[Source]) -> CopiedParts:
    """Return what a session has from sources."""
    if not sources:
        return CopiedParts()
    items = [decode_raw(row.body, Evidence) for row in ledger.evidences.values()]
    rows = (change.row for change in ledger.rows())
    entries = [decode_raw(row.body, MemoryEntry) for row in rows if isinstance(row, EntryRow)]
    return find_copies((*items, *entries), sources)


def _erase_copies(dataset: Dataset, session_ids: Sequence[str], sources: frozenset[Source], tally: _Tally) -> None:
    """Erase what other sessions have from sources in these, with its text."""
    for heir in _find_heirs(dataset, session_ids):
        copies = _read_copies(dataset.ledgers[session_scope(heir)], sources)
        if copies.number:
            tally.texts.update(dict.fromkeys(copies.texts))
            scrubber = scrubber_of_evidence(copies.evidence_ids, copies.texts, sources)
            _scrub(dataset, session_scope(heir), tally, scrubber)


def _scrub(dataset: Dataset, scope: str, tally: _Tally, scrubber: SessionScrubber) -> None:
    done = scrub_ledger(dataset.ledgers[scope], str(session_of(scope)), scrubber)
    tally.touched.append(str(session_of(scope)))
    tally.ledgers[scope] = done.ledger
    tally.counts.update(done.counts)
    tally.entry_ids[scope] = tuple(done.entry_ids)
    tally.floor = max(tally.floor, done.ledger.sequence)


def find_text(dataset: Dataset, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the places (`table/session/key`, sorted) that contain any of the texts."""
    matcher = TextMatcher(texts, least=1)
    found = set[str]()

    def visit(row: StoredRow) -> bool:
        if occurs_in_row(matcher, row):
            found.add(row.place)
        return True

    if not matcher.seeks_nothing:
        walk_rows(dataset, visit)
    return tuple(sorted(found))


def occurs_in_row(matcher: TextMatcher, row: StoredRow) -> bool:
    """Return whether one of the texts occurs in a row of a ledger."""
    return any(map(matcher.occurs, row.words)) or any(
        matcher.occurs_in_tree(decode_raw(JsonText(body), object)) for body in row.bodies
    )


def walk_rows(
    dataset: Dataset,
    visit: Callable[[StoredRow], bool],
    *,
    sessions: Collection[str] | None = None,
    without: Collection[str] = (),
    likely: Callable[[bytes], bool] | None = None,
) -> None:
    """Call `visit` with every row (of these sessions) until it returns False; ledgers that are not `likely` are passed over."""
    wanted = None if sessions is None else frozenset(sessions)
    for scope in dataset.ledgers:
        name = session_of(scope)
        if name in without or (wanted is not None and name not in wanted) or not dataset.may_hold(scope, likely):
            continue
        for row in _rows(scope, dataset.ledgers[scope]):
            if not visit(row):
                return
    for record in () if sessions is not None else dataset.audits:
        if not visit(StoredRow(place=f"audit/{record.audit_id}", session_id="", bodies=(encode(record),))):
            return


def _rows(scope: str, ledger: Ledger) -> Iterator[StoredRow]:
    session_id = session_of(scope) or ""
    name = session_id or scope
    for change in ledger.rows():
        words, bodies = [name, change.key], list[bytes]()
        for value in _values(change):
            if isinstance(value, JsonText):
                bodies.append(bytes(value))
            elif isinstance(value, str) and not isinstance(value, Enum):
                words.append(value)
        place = "/".join(part for part in (change.table, name, change.key) if part)
        if change.table == PACK:
            place = f"{PACK_PLACE}{name}"
        yield StoredRow(place=place, session_id=session_id, words=tuple(words), bodies=tuple(bodies))


def _values(change: Change) -> Iterator[Any]:
    """Yield the contents of a row, field by field."""
    row = change.row
    if row is None or isinstance(row, JsonText):
        yield row
    else:
        yield from (getattr(row, each.name) for each in fields(row))
