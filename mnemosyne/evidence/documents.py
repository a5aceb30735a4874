"""Cuts documents in a session's evidence into passages, and writes the passages into the session's memory for recall.

Evidence is text from outside. Recall is the search of memory for a prompt. Each passage is a memory entry with a selector, which
names the passage's characters in the document. Passages are recalled together with the rest of memory, by the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mnemosyne.core.errors import TurnNotFoundError
from mnemosyne.core.off_loop import calculate
from mnemosyne.core.regexes import Span
from mnemosyne.evidence.redactions import degradations_field, degradations_of
from mnemosyne.protocols import Store
from mnemosyne.schema.evidence import Evidence, readers_of
from mnemosyne.schema.memory import (
    COPIED_FROM,
    DOCUMENT,
    DOCUMENT_ID,
    EMPTY,
    NOBODY,
    SECTION_ID,
    TAKES_FROM_RECALL,
    UNDONE_AT,
    VIEWERS,
    Chain,
    MemoryEntry,
    session_scope,
)
from mnemosyne.schema.query import EvidenceFilter

IS_DOCUMENT = "document"
"""Key in the metadata of an evidence item. The value is true if the content is a document, to be recalled by passages."""

EXPIRES_AT = "expires_at"
MOST_WEIGHT = 1_000
"""Maximum size of a passage: a letter counts 1, a Chinese, Japanese or Korean character 3.

Embedding models read only the first 250 to 500 tokens of a text.
"""

LEAST_WEIGHT = 60
"""Size below which a passage is joined with its neighbour.

A heading begins a new passage if the text before the heading has at least this size.
"""

_KEPT = ("sensitivity", COPIED_FROM)
_HEADING = re.compile(r"^[ ]{0,3}#{1,6}[ \t]+([^\n]{1,200})", re.MULTILINE)
_ENDS = (
    re.compile(r"\n[ \t]*\n\s*"),
    re.compile(r"\n"),
    re.compile(r"[.!?][\"'”’)]?\s+|[。！？][”’」』）]?"),
    re.compile(r"[,;，；、]\s*|\s"),
)
"""Places at which to cut a text, the best first: paragraphs, lines, sentences, words."""


def is_document(evidence: Evidence) -> bool:
    """Return whether `evidence` is a document, which is recalled by its passages and not shown as a result."""
    return evidence.metadata.get(IS_DOCUMENT) is True


def split_document(text: str) -> tuple[Span, ...]:
    """Return the spans (begin, end) of the passages of `text`, in order, without blanks at either end of a passage.

    Together the passages contain every word. A passage ends where a paragraph ends, if possible. Otherwise it ends at the end
    of a line, a sentence or a word. The time is linear in the length of `text`.
    """
    spans: list[Span] = []
    for begin, end in _join_small(text, list(_cut_paragraphs(text))):
        while begin < end and text[begin].isspace():
            begin += 1
        while end > begin and text[end - 1].isspace():
            end -= 1
        if begin < end:
            spans.append((begin, end))
    return tuple(spans)


def _weight(text: str, begin: int, end: int) -> int:
    piece = text[begin:end]
    return len(piece) if piece.isascii() else sum(3 if char >= "\u2e80" else 1 for char in piece)


def _cut_paragraphs(text: str) -> Iterator[Span]:
    """Yield the paragraphs of a text, those that are too large in pieces."""
    place = 0
    for found in _ENDS[0].finditer(text):
        yield from _cut(text, place, found.end(), 1)
        place = found.end()
    yield from _cut(text, place, len(text), 1)


def _cut(text: str, begin: int, end: int, level: int) -> Iterator[Span]:
    """Yield pieces of a part of a text that are small enough, cut at the best places that there are."""
    if _weight(text, begin, end) <= MOST_WEIGHT:
        yield begin, end
        return
    if level == len(_ENDS):
        for place in range(begin, end, MOST_WEIGHT // 3):
            yield place, min(place + MOST_WEIGHT // 3, end)
        return
    place = begin
    for found in _ENDS[level].finditer(text, begin, end):
        yield from _cut(text, place, found.end(), level + 1)
        place = found.end()
    if place < end:
        yield from _cut(text, place, end, level + 1)


def _join_small(text: str, pieces: Sequence[Span]) -> Iterator[Span]:
    """Yield pieces joined with those after them as long as they fit; a small rest goes with the piece before it."""
    joined: list[tuple[int, int, int]] = []
    for begin, end in pieces:
        weight = _weight(text, begin, end)
        starts_section = _HEADING.match(text, begin) is not None
        if joined and joined[-1][2] + weight <= MOST_WEIGHT and not (starts_section and joined[-1][2] >= LEAST_WEIGHT):
            joined[-1] = (joined[-1][0], end, joined[-1][2] + weight)
        else:
            joined.append((begin, end, weight))
    if len(joined) > 1 and joined[-1][2] < LEAST_WEIGHT:
        last = joined.pop()
        joined[-1] = (joined[-1][0], last[1], joined[-1][2] + last[2])
    for begin, end, _ in joined:
        yield begin, end


def document_entries(session_id: str, evidence: Evidence) -> tuple[MemoryEntry, ...]:
    """Return the passages of the document `evidence` as memory entries of the session, in order.

    The result is empty if the document is empty or was undone. Each entry has the exact text of its passage. In the entry's
    metadata, `document_id` is the id of the evidence, and `section_id` is a selector for the passage, such as `chars:0-900`.
    The entry's title is the document's name and the heading above the passage.

    A document may replace memory entries (metadata `takes_from_recall`). For each replaced entry, a marker entry follows the
    passages: because of the marker, recall leaves out the replaced entry. No viewer may see a marker.
    """
    if UNDONE_AT in evidence.metadata:
        return ()
    headings = [(found.start(), found[1].strip(" #\t")) for found in _HEADING.finditer(evidence.content)]
    entries: list[MemoryEntry] = []
    heading, place = "", 0
    for number, (begin, end) in enumerate(split_document(evidence.content)):
        while place < len(headings) and headings[place][0] <= begin:
            heading, place = headings[place][1], place + 1
        selector = f"chars:{begin}-{end}"
        metadata: dict[str, Any] = {DOCUMENT_ID: evidence.evidence_id, SECTION_ID: selector}
        metadata.update({key: evidence.metadata[key] for key in _KEPT if key in evidence.metadata})
        metadata.update(degradations_field(degradations_of(evidence.extra)))
        if readers := readers_of(evidence):
            metadata[VIEWERS] = list(readers)
        if evidence.expires_at is not None:
            metadata[EXPIRES_AT] = evidence.expires_at.isoformat()
        entries.append(
            MemoryEntry(
                entry_id=f"{evidence.evidence_id}#{number}",
                scope=session_scope(session_id),
                chain=Chain.LORE,
                kind=DOCUMENT,
                text=evidence.content[begin:end],
                title=": ".join(part for part in (evidence.source.name, heading) if part),
                at=evidence.created_at,
                turn_id=evidence.links.turn_id or None,
                trust=evidence.trust,
                metadata=metadata,
            )
        )
    return (*entries, *_marks(session_id, evidence))


def _marks(session_id: str, evidence: Evidence) -> Iterator[MemoryEntry]:
    taken = evidence.metadata.get(TAKES_FROM_RECALL)
    for number, entry_id in enumerate(taken if isinstance(taken, list | tuple) else ()):
        yield MemoryEntry(
            entry_id=f"{evidence.evidence_id}!{number}",
            scope=session_scope(session_id),
            chain=Chain.LORE,
            kind=DOCUMENT,
            text=TAKES_FROM_RECALL,
            viewers=NOBODY,
            at=evidence.created_at,
            trust=evidence.trust,
            metadata={DOCUMENT_ID: evidence.evidence_id, TAKES_FROM_RECALL: str(entry_id)},
        )


async def write_passages(store: Store, session_id: str, evidence: Evidence) -> int:
    """Write the missing passages of the document `evidence` into the session's memory, and return how many are new.

    If a turn found the document and is not committed yet, no passage is written, and the result is 0.
    """
    entries = await calculate(document_entries, session_id, evidence, size=len(evidence.content))
    try:
        return await store.append_entries(session_id, entries)
    except TurnNotFoundError:
        return 0


async def remove_passages(store: Store, session_id: str, evidence: Evidence) -> None:
    """Remove the passages of the document `evidence` from the session's memory.

    `evidence` must still have the content from which the passages were cut.
    """
    entries = await calculate(document_entries, session_id, evidence, size=len(evidence.content))
    await store.append_entries(session_id, tuple(map(_without_text, entries)))


async def index_documents(store: Store, session_id: str, where: EvidenceFilter | None = None) -> int:
    """Write the missing passages of a session's documents into the session's memory, and return how many are new.

    Only documents that match `where` are read (None: all documents). Call this in these cases:

    - A host wrote documents with `put_evidence` and `document: true` in the metadata.
    - A turn found documents and was committed.
    - The session was copied from another store.
    """
    found = [each for each in await store.list_evidences(session_id, where) if is_document(each)]
    return sum([await write_passages(store, session_id, each) for each in found])


def has_expired(entry: MemoryEntry, now: datetime) -> bool:
    """Return whether `entry` is a passage of a document that has expired at the time `now`.

    A passage whose time of expiry cannot be read counts as expired.
    """
    until = entry.metadata.get(EXPIRES_AT) if entry.kind == DOCUMENT else None
    try:
        return isinstance(until, str) and datetime.fromisoformat(until) <= now
    except ValueError:
        return True


def _without_text(entry: MemoryEntry) -> MemoryEntry:
    """Return an entry with only its id and place; a store removes such a passage."""
    kept: Mapping[str, Any] = {DOCUMENT_ID: entry.metadata[DOCUMENT_ID]}
    return replace(entry, text="", title="", at=None, metadata=kept or EMPTY)
