"""Values of recall: queries, filters, candidates with all their signals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import NamedTuple

from mnemosyne.schema.evidence import (
    BlockType,
    ContextBlock,
    Evidence,
    EvidenceType,
    Priority,
    SourceKind,
    is_memory,
    is_of_unknown_turn,
    readers_of,
)
from mnemosyne.schema.memory import MACRO, QUEST_UPDATE, Chain, MemoryEntry, Trust
from mnemosyne.schema.session import BranchSpan


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexFilter:
    """Filter of a search: entries of one scope, only ancestors of the head, without the excluded ones."""

    scope: str
    chains: frozenset[Chain]
    lineage: tuple[BranchSpan, ...] | None = None
    """None for scopes without branches (lore)."""
    exclude: frozenset[str] = frozenset()
    """Ids of entries hidden from this viewer or in this state; they are left out before ranking, never after."""


PRIORITY_ORDER = (Priority.MUST, Priority.HIGH, Priority.MEDIUM, Priority.LOW)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceFilter:
    """Filter of evidence items; every given condition must hold."""

    types: frozenset[EvidenceType] | None = None
    source_kinds: frozenset[SourceKind] | None = None
    since: datetime | None = None
    """Inclusive; bounds `created_at`, or the time of first writing if there is none. May be ISO 8601 text with a
    zone.
    """
    until: datetime | None = None
    """Exclusive; see `since`."""
    tags: Mapping[str, str] | None = None
    """Key-value pairs of `metadata`, or of `metadata["tags"]` if that is a mapping."""
    limit: int | None = None
    """Keeps the oldest items, or with `newest` the ones written last (still listed in the order of writing)."""
    newest: bool = False
    evidence_ids: frozenset[str] | None = None
    without_memories: bool = False
    """Leaves out memories that turns recalled (`is_memory`), in a long session most of its evidence."""
    turn_ids: frozenset[str] | None = None
    """Only evidence that these turns found."""
    branch_id: str | None = None
    """Only evidence known on a branch (empty: on the active one, or on the reading turn's): of turns on the path to its
    head, of its pending turn, and of no turn of the session. Stores apply it.
    """
    known_to: frozenset[str] | None = None
    """Only evidence that a turn for these viewers may know (empty: a turn without a viewer)."""

    def __post_init__(self) -> None:
        """Parse times that are ISO 8601 texts; ValueError for another text, and for a time without a zone."""
        for name in ("since", "until"):
            given: datetime | str | None = getattr(self, name)
            at = _read_time(name, given) if isinstance(given, str) else given
            if at is not None and at.utcoffset() is None:
                raise ValueError(
                    f"{name} is {str(given)!r}, which has no time zone; write one, as in 2026-01-31T12:00:00+00:00."
                )
            object.__setattr__(self, name, at)

    def admits(self, evidence: Evidence, written_at: datetime | None = None) -> bool:
        """Return whether an evidence item passes, apart from `limit` and `branch_id`. `written_at`: when it was first stored."""
        if self.turn_ids is not None and evidence.links.turn_id not in self.turn_ids:
            return False
        if not self.may_know(readers_of(evidence)) or (self.known_to and is_of_unknown_turn(evidence)):
            return False
        if self.evidence_ids is not None and evidence.evidence_id not in self.evidence_ids:
            return False
        if self.types is not None and evidence.type not in self.types:
            return False
        if self.source_kinds is not None and evidence.source.kind not in self.source_kinds:
            return False
        if self.without_memories and is_memory(evidence.source.uri):
            return False
        at = evidence.created_at or written_at
        if self.since is not None and (at is None or at < self.since):
            return False
        if self.until is not None and (at is None or at >= self.until):
            return False
        nested = evidence.metadata.get("tags")
        tags = {**evidence.metadata, **(nested if isinstance(nested, Mapping) else {})}
        return all(tags.get(key) == value for key, value in (self.tags or {}).items())

    def on_branch(self, branch_id: str) -> EvidenceFilter:
        """Return the filter with this branch in place of an empty `branch_id`."""
        return replace(self, branch_id=branch_id) if self.branch_id == "" else self

    def may_know(self, readers: Collection[str]) -> bool:
        """Return whether an item for `readers` (empty: everyone) passes `known_to`."""
        return self.known_to is None or not readers or not self.known_to.isdisjoint(readers)


def _read_time(name: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{name} is {text!r}, which is not an ISO 8601 time; write one, as in 2026-01-31T12:00:00+00:00."
        ) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockFilter:
    """Filter of context blocks."""

    block_types: frozenset[BlockType] | None = None
    priorities: frozenset[Priority] | None = None
    min_priority: Priority | None = None
    """Admits this priority and all above it."""
    limit: int | None = None
    without_prefixes: tuple[str, ...] = ()
    """Leaves out blocks whose ids begin with one of these."""

    def admits(self, block: ContextBlock) -> bool:
        """Return whether a block passes, apart from `limit`."""
        if block.block_id.startswith(self.without_prefixes):
            return False
        if self.block_types is not None and block.block_type not in self.block_types:
            return False
        if self.priorities is not None and block.priority not in self.priorities:
            return False
        rank = PRIORITY_ORDER.index
        return self.min_priority is None or rank(block.priority) <= rank(self.min_priority)


class EntryPlace(NamedTuple):
    """Unique name of an entry: its scope and id, because a world and a session may use the same id."""

    scope: str
    chain: Chain
    entry_id: str


def place_of(entry: MemoryEntry) -> EntryPlace:
    """Return the unique name of an entry."""
    return EntryPlace(entry.scope, entry.chain, entry.entry_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Hits:
    """Entries that a search of an index found, best first, as columns: one value of each for each entry."""

    entry_ids: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    """On the arm's own scale: BM25 >= 0, or cosine in -1..1."""
    depths: tuple[int, ...] = ()
    """Depth of each one's turn; 0 for an entry without a turn."""
    sequences: tuple[int, ...] = ()
    """Place of each in the order of writing."""

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[str, float, int, int]]) -> Hits:
        """Return the hits of rows: id, score, depth and sequence of each entry, best first."""
        if not rows:
            return NO_HITS
        entry_ids, scores, depths, sequences = zip(*rows, strict=True)
        return cls(entry_ids=entry_ids, scores=scores, depths=depths, sequences=sequences)

    def rows(self) -> Iterator[tuple[str, float, int, int]]:
        """Return id, score, depth and sequence of each entry, best first."""
        return zip(self.entry_ids, self.scores, self.depths, self.sequences, strict=True)

    def __len__(self) -> int:
        return len(self.entry_ids)


NO_HITS = Hits()


class RatedEntry(NamedTuple):
    """An entry with its worth (0 or more) for an overview; 0 leaves it out."""

    entry: MemoryEntry
    worth: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievalQuery:
    """One recall."""

    text: str
    world_id: str
    session_id: str | None = None
    lineage: tuple[BranchSpan, ...] = ()
    """Ancestors of the session's head."""
    depth: int = 0
    keywords: tuple[str, ...] = ()
    recent: tuple[str, ...] = ()
    """The last few messages, oldest first, for queries that refer to them."""
    temporal: str = "now"
    weights: Mapping[Chain, float] = field(default_factory=dict)
    """The plan's domain weights by chain (0..1, need not sum to 1)."""
    focus_quest_id: str | None = None
    exclude: frozenset[str] = frozenset()
    """Ids of entries that are already in the prompt (the history window) or hidden from `viewer`."""
    limit: int = 50
    entities: tuple[str, ...] = ()
    """Ids of world entities found in the input."""
    quest_distances: Mapping[str, int] = field(default_factory=dict)
    """Steps on the quest graph from the focused quest (0) to each quest near it."""
    extra: tuple[MemoryEntry, ...] = ()
    """Entries that are in no index, such as finished quests derived from the state; they are recalled with the others
    and checked only against the exclusions.
    """
    shown_from: int | None = None
    """Depth from which turns are in the prompt: their messages, events and summaries are not recalled, nor are
    narratives that mostly cover them.
    """
    shown_quests: frozenset[str] = frozenset()
    """Quests that the prompt shows in their present state: their changes are not recalled."""
    exclude_by_scope: Mapping[str, frozenset[str]] | None = None
    """`exclude` by scope, so that the same id in another scope is not left out."""
    may_know: Callable[[MemoryEntry], bool] | None = field(default=None, compare=False, repr=False)
    """Returns whether the viewer may know a fetched entry (None: all), so that a restriction written during recall
    applies too.
    """
    patience_seconds: float | None = None
    """Maximum wait for the query's vector, without loading a model (None: as long as the retriever waits, loading
    included).
    """
    written: Mapping[tuple[str, Chain], int] | None = field(default=None, compare=False, repr=False)
    """Newest sequence of each chain of a scope when the turn began; a missing chain is asked of the source."""
    rate: Callable[[Sequence[MemoryEntry]], Sequence[RatedEntry]] | None = field(
        default=None, compare=False, repr=False
    )
    """Makes the recall an overview: entries are listed, not searched, and the best that it returns, spread over time,
    are the candidates, with their worth as score. It may add entities to entries.
    """

    def admits(self, entry: MemoryEntry) -> bool:
        """Return whether a fetched entry may be recalled: the viewer may know it, and its turn is not in the prompt."""
        return (self.may_know is None or self.may_know(entry)) and not self.is_in_prompt(entry)

    def excluded_ids(self, scope: str) -> frozenset[str]:
        """Return the ids that must not be recalled from a scope."""
        return self.exclude if self.exclude_by_scope is None else self.exclude_by_scope.get(scope, frozenset())

    def is_in_prompt(self, entry: MemoryEntry) -> bool:
        """Return whether the prompt already shows the content of an entry: its turn, most of its turns, or its
        quest.
        """
        if entry.kind == QUEST_UPDATE and entry.quest_id in self.shown_quests:
            return True
        # A document found by a turn is not one of its messages.
        if self.shown_from is None or entry.depth is None or entry.depth < self.shown_from or entry.chain is Chain.LORE:
            return False
        first = entry.metadata.get("from_turn") if entry.kind == MACRO else entry.depth
        if not isinstance(first, int):
            return False
        return 2 * (entry.depth - self.shown_from + 1) > entry.depth - first + 1


class TextSearch(NamedTuple):
    """One search for words in an index; see `Index.search_text`."""

    text: str | Mapping[str, float]
    where: IndexFilter
    limit: int
    beside: tuple[IndexFilter, ...] = ()
    """Further entries that count, with those of `where`, for how rare a word is and how long an entry usually is, like
    one collection.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Signals:
    """All score parts of a candidate; None if that arm did not return it."""

    vector: float | None = None
    fts: float | None = None
    fused: float | None = None
    recency: float | None = None
    graph: float | None = None
    rerank: float | None = None


SIGNAL_NAMES = tuple(each.name for each in fields(Signals))
"""The score parts of a candidate, in the order in which they are stored and shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A recalled entry before selection. Entry ids are unique only within a scope."""

    entry_id: str
    scope: str
    chain: Chain
    kind: str
    title: str
    preview: str
    """At most 100 tokens."""
    score: float
    """Comparable only within one recall."""
    signals: Signals
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    depth: int | None = None
    turn_id: str | None = None
    trust: Trust = Trust.AUTHORED
    alias: str = ""
    """Name of a candidate in a recall with another one of the same id."""
    keys: tuple[str, ...] = ()
    """Words by which its author wants it to be found."""

    @property
    def name(self) -> str:
        """Unique name within the recall: its entry's id, or its alias."""
        return self.alias or self.entry_id

    @property
    def place(self) -> EntryPlace:
        """Unique name of its entry."""
        return EntryPlace(self.scope, self.chain, self.entry_id)

    @property
    def source(self) -> str:
        """Public name of the chain: `rag_chain`, `narrative_chain`, `event_chain` or `history_chain`."""
        return "rag_chain" if self.chain is Chain.LORE else f"{self.chain.value}_chain"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recall:
    """Candidates, best first, with the query, the duration of each step, and the degradations."""

    candidates: tuple[Candidate, ...]
    queries: tuple[str, ...] = ()
    degradations: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)
