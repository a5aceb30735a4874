"""Lists the memories of a session page by page, newest first, and the turns that used a memory.

Each page reads a limited number of rows, so that a session with many memories is listed as fast as a short one. This
module must not import a concrete store.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime

from jacquard.core.errors import ConfigError
from jacquard.memory.story_facts import load_past
from jacquard.memory.verbs.editor import PIN_PREFIX
from jacquard.memory.verbs.find import REMEMBERED, SENSITIVITY, has_words, kind_of_document, load_documents
from jacquard.memory.verbs.log import ACTION, AUTHOR
from jacquard.memory.verbs.values import Memory, MemoryAction
from jacquard.pipeline.record.stored_turn import report_of, viewer_of
from mnemosyne.chains.audience import audience_of_entry
from mnemosyne.chains.lore import may_know
from mnemosyne.chains.state import StateView, view_state
from mnemosyne.chains.story_facts import Ending, find_endings
from mnemosyne.chains.turn_tree import is_on_path
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.protocols import Store
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import (
    EMPTY,
    TAKES_FROM_RECALL,
    Chain,
    MemoryEntry,
    Trust,
    document_of,
    session_scope,
    world_scope,
)
from mnemosyne.schema.session import SessionHead, TurnStatus
from mnemosyne.values import dataclass

CHAINS = (Chain.LORE, Chain.NARRATIVE, Chain.EVENT, Chain.HISTORY)
"""Chains that have memories, in the order of a listing. In a session, the lore is what was remembered and ingested."""
MOST_SCANNED = 2_000
"""Maximum number of rows that one page reads. If few of them pass the filters, the page is short."""
_MOST_SCANNED_TURNS = 50
_CURSOR = re.compile(r"([a-z]+)\.([0-9]{1,18})")
_FIRST_PASSAGE = "#0"


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryFilter:
    """Conditions for listed memories. Conditions that are None or empty are not applied."""

    chain: str | None = None
    kind: str | None = None
    """Kind of memory: `remembered`, `document`, or the kind of an entry."""
    author: str | None = None
    pinned: bool | None = None
    superseded: bool | None = None
    query: str = ""
    """Words that the title and text must contain."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedMemory:
    """Memory in a listing."""

    memory_id: str
    """Id by which all memory verbs name it."""
    chain: Chain
    kind: str
    """`remembered`, `document`, or the kind of the entry (`turn_summary`, `message` …)."""
    text: str
    """Text of the memory. For a long document, it is the first passage."""
    title: str = ""
    author: str = ""
    """Name of the person or character who remembered or said it; '' if it was made of turns."""
    at: datetime | None = None
    turn_id: str | None = None
    depth: int | None = None
    """Number of its turn (None: it belongs to no turn)."""
    age_turns: int | None = None
    """Number of turns since its turn (None: it belongs to no turn)."""
    pinned: bool = False
    superseded_by: str = ""
    """Id of the edit that replaced it or marked it as no longer true, of the memory that is valid instead, or of the event
    that ended it (a thread); '' if recall may find it.
    """
    valid_to: int | None = None
    """Number of the turn that ended it (None: no turn ended it). It was valid from its own turn, `depth`."""
    viewers: tuple[str, ...] = ()
    trust: Trust = Trust.USER
    sensitivity: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryPage:
    """One page of memories: chain by chain (lore, narrative, event, history), in each chain the newest first.

    Send `next` as `cursor` to get the next page; it is null on the last page. A page with filters may be short, or
    even empty, although there are more. `counts` has the number of stored entries by chain, on all branches and with
    each passage of a document. Only the first page has it, and only for a caller who may know all of them.
    """

    items: tuple[ListedMemory, ...]
    next: str | None = None
    counts: Mapping[str, int] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryUse:
    """Turn whose prompt had a memory."""

    turn_id: str
    depth: int
    at: datetime | None = None
    how: str = "recalled"
    """`recalled`, or `pinned`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryUses:
    """Turns that used a memory, newest first. Send `before` to search older turns; it is null if none are left."""

    items: tuple[MemoryUse, ...]
    before: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reader:
    """Conditions for the entries of one listing."""

    head: SessionHead
    viewer: str | None
    view: StateView
    where: MemoryFilter
    pins: Mapping[str, str]
    """Edit that pins an entry, by the id of the entry."""
    superseded: Mapping[str, str]
    """Edit that superseded an entry, or event that ended it, by the id of the entry."""
    endings: Mapping[str, Ending]
    """End of an entry, by the id of the entry."""

    def admits(self, entry: MemoryEntry) -> bool:
        """Return whether an entry passes the conditions that need no evidence."""
        if TAKES_FROM_RECALL in entry.metadata:
            return False
        if document_of(entry) is not None:
            if not entry.entry_id.endswith(_FIRST_PASSAGE):
                return False
        elif self.where.kind is not None and entry.kind != self.where.kind:
            return False
        if entry.depth and not is_on_path(self.head, entry.branch_id or "", entry.depth, TurnStatus.COMMITTED):
            return False
        if self.viewer is not None and not may_know(entry, self.viewer, self.view):
            return False
        if self.where.superseded not in (None, entry.entry_id in self.superseded):
            return False
        if self.where.pinned not in (None, entry.entry_id in self.pins):
            return False
        return has_words(f"{entry.title} {entry.text}", self.where.query)

    def show(self, entry: MemoryEntry, documents: Mapping[str, Evidence]) -> ListedMemory | None:
        """Return an entry as a memory, or None if it does not pass the filter."""
        document_id, author, kind, text = document_of(entry), entry.speaker or "", entry.kind, entry.text
        if document_id is not None:
            if (document := documents.get(document_id)) is None:
                return None
            kind = kind_of_document(document)
            author = str(document.metadata.get(AUTHOR, "")) or document.source.name
            text = document.content if kind == REMEMBERED else text
        if self.where.kind not in (None, kind) or self.where.author not in (None, author):
            return None
        return ListedMemory(
            memory_id=document_id or entry.entry_id,
            chain=entry.chain,
            kind=kind,
            text=text,
            title=entry.title,
            author=author,
            at=entry.at,
            turn_id=entry.turn_id,
            depth=entry.depth or None,
            age_turns=None if not entry.depth else max(self.head.depth - entry.depth, 0),
            pinned=entry.entry_id in self.pins,
            superseded_by=self.superseded.get(entry.entry_id, ""),
            valid_to=None if (ending := self.endings.get(entry.entry_id)) is None else ending.depth,
            viewers=audience_of_entry(entry),
            trust=entry.trust,
            sensitivity=str(entry.metadata.get(SENSITIVITY, "")),
        )


async def browse_memory(
    store: Store,
    session_id: str,
    where: MemoryFilter,
    *,
    viewer: str | None = None,
    branch_id: str | None = None,
    as_of_turn: int | None = None,
    cursor: str = "",
    limit: int = 50,
) -> MemoryPage:
    """Return a page of the memories of a branch. With `viewer`, only memories that this viewer may know. With
    `as_of_turn`, the memories as they were after the turn with this number.

    The lore of the world is not listed, except for pinned entries. Raises ConfigError if the chain or the cursor is
    invalid. Raises SessionNotFoundError and BranchNotFoundError.
    """
    chain, before = _read_cursor(cursor, where.chain)
    head, state = await load_past(store, session_id, branch_id, as_of_turn)
    scope = session_scope(session_id)
    pins, superseded, endings = await _load_marks(store, head)
    reader = _Reader(
        head=head,
        viewer=viewer,
        view=view_state(state),
        where=where,
        pins=pins,
        superseded=superseded,
        endings=endings,
    )
    counts = await store.chain_sizes(scope) if not cursor and viewer is None else {}
    shown_counts = {each.value: number for each, number in counts.items()}
    if where.pinned:
        if cursor:
            raise ConfigError("cursor: pinned memories are one page; leave the cursor out.")
        entries = [each for name in (scope, world_scope(head.world_id)) for each in await store.entries(name, [*pins])]
        entries = [each for each in entries if where.chain in (None, each.chain.value)]
        return MemoryPage(
            items=tuple([each for _, each in await _show(store, session_id, reader, entries)]), counts=shown_counts
        )
    items: list[ListedMemory] = []
    scanned = 0
    while chain is not None and len(items) < limit and scanned < MOST_SCANNED:
        page = await store.entries_before(scope, chain, before, max(limit, 200))
        scanned += len(page)
        found = await _show(store, session_id, reader, [each.entry for each in page])
        sequences = {each.entry.entry_id: each.sequence for each in page}
        taken = found[: limit - len(items)]
        items += [each for _, each in taken]
        if len(taken) < len(found):
            before = sequences[taken[-1][0].entry_id]
        elif page:
            before = page[-1].sequence
        else:
            chain, before = _chain_after(chain, where.chain), None
    following = None if chain is None else f"{chain.value}.{0 if before is None else before}"
    return MemoryPage(items=tuple(items), next=following, counts=shown_counts)


def _read_cursor(cursor: str, wanted: str | None) -> tuple[Chain | None, int | None]:
    names = [each.value for each in CHAINS]
    if wanted is not None and wanted not in names:
        raise ConfigError(f"chain is {wanted[:40]!r}; choose from {', '.join(names)}.")
    if not cursor:
        return Chain(wanted or CHAINS[0]), None
    found = _CURSOR.fullmatch(cursor)
    if found is None or found[1] not in names or wanted not in (None, found[1]):
        raise ConfigError(f"cursor is {cursor[:40]!r}; send the `next` of the page before, with the same filters.")
    return Chain(found[1]), int(found[2]) or None


def _chain_after(chain: Chain, wanted: str | None) -> Chain | None:
    rest = () if wanted is not None else CHAINS[CHAINS.index(chain) + 1 :]
    return rest[0] if rest else None


async def _load_marks(store: Store, head: SessionHead) -> tuple[dict[str, str], dict[str, str], dict[str, Ending]]:
    """Return three mappings by the id of an entry: the edits that pin one, the edits or memories that superseded one, and the
    ends on the path of `head`.
    """
    gated = await store.gated_entries((session_scope(head.session_id),))
    marks = [each for each in gated if TAKES_FROM_RECALL in each.metadata]
    edits = await load_documents(store, head.session_id, marks)
    pins: dict[str, str] = {}
    superseded: dict[str, str] = {}
    for each in marks:
        edit = edits.get(document_of(each) or "")
        if edit is not None:
            is_pin = edit.metadata.get(ACTION) == MemoryAction.PIN.value
            (pins if is_pin else superseded)[str(each.metadata[TAKES_FROM_RECALL])] = edit.evidence_id
    endings = find_endings(gated, head.lineage)
    return (
        pins,
        {**{name: each.superseded_by or each.event_id for name, each in endings.items()}, **superseded},
        endings,
    )


async def _show(
    store: Store, session_id: str, reader: _Reader, entries: Sequence[MemoryEntry]
) -> list[tuple[MemoryEntry, ListedMemory]]:
    size = sum(len(each.text) for each in entries)
    admitted = await calculate(lambda: [each for each in entries if reader.admits(each)], size=size)
    documents = await load_documents(store, session_id, admitted)
    shown = ((each, reader.show(each, documents)) for each in admitted)
    return [(entry, memory) for entry, memory in shown if memory is not None]


async def find_memory_uses(
    store: Store, session_id: str, memory: Memory, *, viewer: str | None = None, before: int | None = None
) -> MemoryUses:
    """Return the turns of the active branch whose prompts had a memory, newest first. With `viewer`, only turns that were
    prepared for this viewer.

    One call reads the receipts of at most 50 turns, those before the depth `before` (None: the newest).
    """
    turns = await store.turns(session_id, limit=_MOST_SCANNED_TURNS, before_depth=before)
    names, pin = {memory.memory_id, *memory.entry_ids}, f"{PIN_PREFIX}{memory.memory_id}"
    uses: list[MemoryUse] = []
    for each in reversed(turns):
        record = await store.turn(session_id, each.turn_id)
        if record.receipt is None or (viewer is not None and viewer_of(record) != viewer):
            continue
        report = await calculate(report_of, record, size=size_of(record.receipt))
        is_pinned = any(span.block_id == pin for span in report.spans)
        if is_pinned or names.intersection(report.stream_b.selected):
            how = "pinned" if is_pinned else "recalled"
            uses.append(MemoryUse(turn_id=record.turn_id, depth=record.depth, at=record.created_at, how=how))
    oldest = turns[0].depth if turns else 1
    return MemoryUses(items=tuple(uses), before=oldest if oldest > 1 else None)
