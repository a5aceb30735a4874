"""Stores the marks of evaluators: which memories should have been in the prompt of a turn, and which should not.

A mark is an evidence item of its session, so stores, copies and erasures cover it. It has no content, and is neither recalled
nor shown. The marks of a session are exported as a labelled set: files in which recall can be scored against them.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from jacquard.core.errors import ConfigError
from jacquard.memory.verbs.values import Memory
from mnemosyne.evidence.documents import IS_DOCUMENT
from mnemosyne.protocols import Store
from mnemosyne.schema.evidence import Evidence, EvidenceLinks, EvidenceSource, EvidenceType, SourceKind
from mnemosyne.schema.memory import TAKES_FROM_RECALL, Chain, MemoryEntry, Trust, session_scope, world_scope
from mnemosyne.schema.query import EvidenceFilter
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import Role
from mnemosyne.values import dataclass

IS_MARK = "turn_mark"
_TAG: Mapping[str, str] = {IS_MARK: "yes"}
_ENTRIES, _MEMORY, _WANTED, _AUTHOR = "mark_entries", "mark_memory", "mark_wanted", "mark_author"
GATE_TOLERANCE = 1.0
"""Percentage points by which a mean may fall before the gate of an exported set fails."""
MOST_DOCUMENTS = 50_000
"""Maximum number of documents in an exported set."""
_SHOWN_TURNS = 4
_PAGE = 1_000
_CHAINS = (Chain.HISTORY, Chain.NARRATIVE, Chain.EVENT, Chain.LORE)


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnMark:
    """Judgement of a person on one memory in one turn: whether the prompt should have had it (`wanted`)."""

    turn_id: str
    memory_id: str
    wanted: bool
    entry_ids: tuple[str, ...] = ()
    """Ids of the entries of the memory, by which recall finds it."""
    author: str = ""
    at: datetime | None = None


async def put_mark(
    store: Store,
    record: TurnRecord,
    memory: Memory,
    wanted: bool | None,
    *,
    author: str,
    at: datetime,
) -> TurnMark | None:
    """Store the mark of a memory in a turn in place of an earlier one, and return it. `wanted` None takes the mark back.

    Raises ConfigError if the turn has no message of the user, which an evaluation would ask.
    """
    if not input_of(record):
        raise ConfigError(f"Turn {record.turn_id!r} has no message of the user; mark another one.")
    name = hashlib.sha256(f"{record.turn_id}\0{memory.memory_id}".encode("utf-8", "surrogatepass")).hexdigest()[:24]
    evidence = Evidence(
        evidence_id=f"mark-{name}",
        type=EvidenceType.OTHER,
        source=EvidenceSource(kind=SourceKind.SYSTEM, name="mark"),
        trust=Trust.USER,
        metadata={
            IS_DOCUMENT: True,
            IS_MARK: "yes" if wanted is not None else "no",
            _MEMORY: memory.memory_id,
            _ENTRIES: list(memory.entry_ids),
            _WANTED: wanted,
            _AUTHOR: author,
        },
        links=EvidenceLinks(turn_id=record.turn_id),
        created_at=at,
    )
    await store.put_evidence(record.session_id, evidence)
    return _mark_of(evidence)


async def list_marks(store: Store, session_id: str) -> tuple[TurnMark, ...]:
    """Return the marks of a session on all branches, in the order of writing. Raises SessionNotFoundError."""
    found = await store.list_evidences(session_id, EvidenceFilter(tags=_TAG))
    if not found:
        await store.head(session_id)
    return tuple(mark for each in found if (mark := _mark_of(each)) is not None)


def _mark_of(evidence: Evidence) -> TurnMark | None:
    told = evidence.metadata
    if not isinstance(told.get(_WANTED), bool):
        return None
    return TurnMark(
        turn_id=evidence.links.turn_id or "",
        memory_id=str(told[_MEMORY]),
        wanted=told[_WANTED],
        entry_ids=tuple(map(str, told[_ENTRIES])),
        author=str(told[_AUTHOR]),
        at=evidence.created_at,
    )


async def export_marks(store: Store, session_id: str) -> bytes:
    """Return the marks of a session as a labelled set: a ZIP file with `corpus.jsonl`, `queries.jsonl` and `set.json`, and
    the gate `gate.json`, which has no baseline yet.

    Each marked turn is one query with a collection of its own: the memories from before the turn, on its branch. The lore of the
    world belongs to all queries. Raises ConfigError if there are no marks, or if the set would be too large.
    """
    by_turn: dict[str, list[TurnMark]] = {}
    for mark in await list_marks(store, session_id):
        by_turn.setdefault(mark.turn_id, []).append(mark)
    if not by_turn:
        raise ConfigError(f"Session {session_id!r} has no marks yet; mark memories in its turns first.")
    lore = await _read_scope(store, world_scope((await store.head(session_id)).world_id))
    own = await _read_scope(store, session_scope(session_id))
    lines = [_document_line(each, None, each.entry_id) for each in lore]
    queries: list[dict[str, Any]] = []
    shared = frozenset(each.entry_id for each in lore)
    for turn_id, marks in by_turn.items():
        record = await store.turn(session_id, turn_id)
        before = await store.turns(session_id, limit=_PAGE, branch_id=record.branch_id, before_depth=record.depth)
        known = await _find_known(store, record, own)
        lines += [_document_line(each, turn_id, f"{turn_id}/{each.entry_id}") for each in known]
        if len(lines) > MOST_DOCUMENTS:
            raise ConfigError(
                f"The set would have more than {MOST_DOCUMENTS:,} documents; mark fewer turns of one session."
            )
        names = {each.entry_id: f"{turn_id}/{each.entry_id}" for each in known} | {each: each for each in shared}
        relevant = {names[name]: int(mark.wanted) for mark in marks for name in mark.entry_ids if name in names}
        if relevant:
            queries.append(
                {
                    "id": f"{session_id}:{turn_id}",
                    "session": turn_id,
                    "query": input_of(record),
                    "history": _history_of(before[-_SHOWN_TURNS:]),
                    "relevant": relevant,
                    "category": "marked",
                }
            )
    if not queries:
        raise ConfigError(f"None of the marked memories of session {session_id!r} is stored any more.")
    return _pack(lines, queries, session_id)


async def _find_known(store: Store, record: TurnRecord, entries: Iterable[MemoryEntry]) -> list[MemoryEntry]:
    """Return the entries that a turn could have recalled: entries without a turn, and entries of earlier turns on its branch."""
    lineage = (await store.head(record.session_id, record.branch_id)).lineage
    upto = {span.branch_id: min(span.upto_depth, record.depth - 1) for span in lineage}
    return [each for each in entries if not each.depth or each.depth <= upto.get(each.branch_id or "", 0)]


async def _read_scope(store: Store, scope: str) -> list[MemoryEntry]:
    found: list[MemoryEntry] = []
    for chain in _CHAINS:
        after = 0
        while page := await store.entries_after(scope, chain, after, _PAGE):
            found += [
                each.entry
                for each in page
                if not each.deleted and each.entry.text.strip() and TAKES_FROM_RECALL not in each.entry.metadata
            ]
            after = page[-1].sequence
            if len(found) > MOST_DOCUMENTS:
                raise ConfigError(f"{scope} has more than {MOST_DOCUMENTS:,} entries, too many for a labelled set.")
    return found


def _document_line(entry: MemoryEntry, session: str | None, name: str) -> dict[str, Any]:
    line: dict[str, Any] = {"id": name, "chain": entry.chain.value, "session": session, "text": entry.text}
    if entry.depth:
        line["turn"] = entry.depth
    if entry.at is not None:
        line["at"] = entry.at.isoformat()
    if entry.speaker:
        line["speaker"] = entry.speaker
    return line


def input_of(record: TurnRecord) -> str:
    """Return what the user said in a turn."""
    return "\n".join(each.content for each in record.messages if each.role is Role.USER).strip()


def _history_of(turns: Sequence[TurnRecord]) -> list[dict[str, str]]:
    said = (each for turn in turns for each in turn.messages if each.role in (Role.USER, Role.ASSISTANT))
    return [{"speaker": each.role.value, "text": each.content} for each in said if each.content.strip()]


def _pack(lines: Sequence[Mapping[str, Any]], queries: Sequence[Mapping[str, Any]], source: str) -> bytes:
    about = {"licence": "own data", "source": f"marks in session {source}"}
    gate = {"tolerance": GATE_TOLERANCE, "sets": [{"name": "marks", "data": "."}], "baseline": {}}
    files = {"corpus.jsonl": lines, "queries.jsonl": queries, "set.json": (about,), "gate.json": (gate,)}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as pack:
        for name, values in files.items():
            text = "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in values)
            pack.writestr(zipfile.ZipInfo(name), text.encode("utf-8", "replace"))
    return made.getvalue()
