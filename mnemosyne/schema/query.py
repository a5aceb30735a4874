"""The values of recall: queries, filters, candidates with all their signals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
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
    """What a search may return: entries of one scope, only ancestors of the head, nothing that is excluded.

    `lineage` is None for scopes without branches (lore). `exclude` holds ids of entries that are hidden from this
    viewer or in this state; they are left out before ranking, never after.
    """

    scope: str
    chains: frozenset[Chain]
    lineage: tuple[BranchSpan, ...] | None = None
    exclude: frozenset[str] = frozenset()


PRIORITY_ORDER = (Priority.MUST, Priority.HIGH, Priority.MEDIUM, Priority.LOW)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceFilter:
    """Which evidence items to list; every given condition must hold.

    `since` (inclusive) and `until` (exclusive) bound `created_at`, or the time of first writing of an item without one; both may be
    ISO 8601 texts with a zone. `tags` are
    key-value pairs of `metadata`, or of `metadata["tags"]` where that is a mapping. `without_memories` leaves out what turns
    recalled (`is_memory`), which in a long session is most of its evidence. `limit` keeps the oldest, or with `newest` those
    written last (still listed in the order of writing).

    `turn_ids`: only what these turns found. `branch_id`: only what is known on a branch (empty: on the active one, or on that of
    the turn that reads it): evidence of turns on the path to its head, of its pending turn, and of no turn that the session has.
    Stores apply it. `known_to`: only what a turn for these viewers may know (none: a turn without a viewer).
    """

    types: frozenset[EvidenceType] | None = None
    source_kinds: frozenset[SourceKind] | None = None
    since: datetime | None = None
    until: datetime | None = None
    tags: Mapping[str, str] | None = None
    limit: int | None = None
    newest: bool = False
    evidence_ids: frozenset[str] | None = None
    without_memories: bool = False
    turn_ids: frozenset[str] | None = None
    branch_id: str | None = None
    known_to: frozenset[str] | None = None

    def __post_init__(self) -> None:
        """Read times that are ISO 8601 texts; ValueError for another text, and for a time without a zone."""
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
        """Return the filter for a branch, where it is one for the branch of a turn."""
        return replace(self, branch_id=branch_id) if self.branch_id == "" else self

    def may_know(self, readers: Collection[str]) -> bool:
        """Return whether what is kept for `readers` (none: everyone) passes `known_to`."""
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
    """Which context blocks to list; `min_priority` admits this priority and all above it.
    `without_prefixes` leaves out blocks whose ids begin with one of these.
    """

    block_types: frozenset[BlockType] | None = None
    priorities: frozenset[Priority] | None = None
    min_priority: Priority | None = None
    limit: int | None = None
    without_prefixes: tuple[str, ...] = ()

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
    """The unique name of an entry: its scope and id, because a world and a session may use the same id."""

    scope: str
    chain: Chain
    entry_id: str


def place_of(entry: MemoryEntry) -> EntryPlace:
    """Return the unique name of an entry."""
    return EntryPlace(entry.scope, entry.chain, entry.entry_id)


class Hit(NamedTuple):
    """One result of one arm. `score` is on the arm's own scale: BM25 >= 0, or cosine in -1..1.

    `depth`: of its turn; `sequence`: its place in the order of writing.
    """

    entry_id: str
    score: float
    depth: int | None = None
    sequence: int = 0


class RatedEntry(NamedTuple):
    """An entry with its worth (0 or more) for an overview; 0 leaves it out."""

    entry: MemoryEntry
    worth: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievalQuery:
    """One recall.

    `weights` are the plan's domain weights by chain (0..1, need not sum to 1). `recent` holds the last few messages,
    oldest first, for queries that refer to them. `exclude` holds ids of entries that are in the prompt already (the
    history window) or hidden from `viewer`; `exclude_by_scope`, if given, has them by scope, so that the same id in
    another scope is not left out. `entities` are ids of world entities found in the input. `quest_distances` counts the
    steps on the quest graph from the focused quest (0) to each quest near it. `extra` are entries that are in no index,
    such as finished quests derived from the state; they are recalled with the others and are only checked against the
    exclusions. Messages, events and summaries of turns from depth `shown_from` on are in the prompt already and are not
    recalled; nor are narratives of several turns, most of which are, and changes of the quests `shown_quests`, which the
    prompt shows as they are now. `may_know` returns whether the viewer may know a fetched entry
    (None: all of them), so that a restriction written during recall applies too. `patience_seconds`: how long recall may
    wait for the query's vector; it does not wait for a model to be loaded (None: it waits as long as the retriever does, for that
    too). `written`: up to which sequence each chain of a scope was written when the turn began, so that nothing has to be asked
    again (None, or none for a chain: the source is asked). `rate` makes it an overview: entries are listed and not searched for,
    and the best that it returns, spread over time, are the candidates, with their worth as score; it may add entities to entries.
    """

    text: str
    world_id: str
    session_id: str | None = None
    lineage: tuple[BranchSpan, ...] = ()
    depth: int = 0
    keywords: tuple[str, ...] = ()
    recent: tuple[str, ...] = ()
    temporal: str = "now"
    weights: Mapping[Chain, float] = field(default_factory=dict)
    focus_quest_id: str | None = None
    exclude: frozenset[str] = frozenset()
    limit: int = 50
    entities: tuple[str, ...] = ()
    quest_distances: Mapping[str, int] = field(default_factory=dict)
    extra: tuple[MemoryEntry, ...] = ()
    shown_from: int | None = None
    shown_quests: frozenset[str] = frozenset()
    exclude_by_scope: Mapping[str, frozenset[str]] | None = None
    may_know: Callable[[MemoryEntry], bool] | None = field(default=None, compare=False, repr=False)
    patience_seconds: float | None = None
    written: Mapping[tuple[str, Chain], int] | None = field(default=None, compare=False, repr=False)
    rate: Callable[[Sequence[MemoryEntry]], Sequence[RatedEntry]] | None = field(
        default=None, compare=False, repr=False
    )

    def admits(self, entry: MemoryEntry) -> bool:
        """Return whether a fetched entry may be recalled: the viewer may know it, and its turn is not in the prompt."""
        return (self.may_know is None or self.may_know(entry)) and not self.is_in_prompt(entry)

    def excluded_ids(self, scope: str) -> frozenset[str]:
        """Return the ids that must not be recalled from a scope."""
        return self.exclude if self.exclude_by_scope is None else self.exclude_by_scope.get(scope, frozenset())

    def is_in_prompt(self, entry: MemoryEntry) -> bool:
        """Return whether the prompt shows already what an entry tells: its turn, most of its turns, or its quest."""
        if entry.kind == QUEST_UPDATE and entry.quest_id in self.shown_quests:
            return True
        # A document that a turn found is none of its messages.
        if self.shown_from is None or entry.depth is None or entry.depth < self.shown_from or entry.chain is Chain.LORE:
            return False
        first = entry.metadata.get("from_turn") if entry.kind == MACRO else entry.depth
        if not isinstance(first, int):
            return False
        return 2 * (entry.depth - self.shown_from + 1) > entry.depth - first + 1


class TextSearch(NamedTuple):
    """One search for words in an index; see `Index.search_text`. The entries of `beside` count with those of `where` for how
    rare a word is and how long an entry usually is, as if they were one collection.
    """

    text: str | Mapping[str, float]
    where: IndexFilter
    limit: int
    beside: tuple[IndexFilter, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Signals:
    """All score parts of a candidate; None where that arm did not return it."""

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
    """A recalled entry before selection; `preview` is at most 100 tokens, `score` is comparable within one recall only.

    Entry ids are unique only within a scope: `alias` is the name of a candidate in a recall with another one of the
    same id. `keys` are the words by which its author wants it to be found.
    """

    entry_id: str
    scope: str
    chain: Chain
    kind: str
    title: str
    preview: str
    score: float
    signals: Signals
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    depth: int | None = None
    turn_id: str | None = None
    trust: Trust = Trust.AUTHORED
    alias: str = ""
    keys: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its unique name within the recall: its entry's id, or its alias."""
        return self.alias or self.entry_id

    @property
    def place(self) -> EntryPlace:
        """The unique name of its entry."""
        return EntryPlace(self.scope, self.chain, self.entry_id)

    @property
    def source(self) -> str:
        """The seed's name of the chain: `rag_chain`, `narrative_chain`, `event_chain` or `history_chain`."""
        return "rag_chain" if self.chain is Chain.LORE else f"{self.chain.value}_chain"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recall:
    """Candidates, best first, with the query, the duration of each step, and the degradations."""

    candidates: tuple[Candidate, ...]
    queries: tuple[str, ...] = ()
    degradations: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)
