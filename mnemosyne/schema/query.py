"""What is asked of recall and what comes back: queries, filters, candidates with all their signals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import NamedTuple

from mnemosyne.schema.evidence import BlockType, ContextBlock, Evidence, EvidenceType, Priority, SourceKind
from mnemosyne.schema.memory import MACRO, Chain, MemoryEntry, Trust
from mnemosyne.schema.session import BranchSpan


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexFilter:
    """What a search may return: one scope, ancestors of the head only, nothing that is excluded.

    `lineage` is None for scopes without branches (lore). `exclude` holds entry ids that must not be seen by this viewer
    or in this state; they are left out before ranking, never after.
    """

    scope: str
    chains: frozenset[Chain]
    lineage: tuple[BranchSpan, ...] | None = None
    exclude: frozenset[str] = frozenset()


PRIORITY_ORDER = (Priority.MUST, Priority.HIGH, Priority.MEDIUM, Priority.LOW)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceFilter:
    """Which evidence to list (seed 002 section 6.1); every part that is given must hold.

    `since` (inclusive) and `until` (exclusive) bound `created_at`; evidence without one passes neither. `tags` are
    key-value pairs of `metadata`, or of `metadata["tags"]` where that is a mapping. `limit` keeps the oldest, with `newest`
    those written last (listed in the order of writing all the same).
    """

    types: frozenset[EvidenceType] | None = None
    source_kinds: frozenset[SourceKind] | None = None
    since: datetime | None = None
    until: datetime | None = None
    tags: Mapping[str, str] | None = None
    limit: int | None = None
    newest: bool = False

    def admits(self, evidence: Evidence) -> bool:
        """Say whether an evidence passes (but for `limit`)."""
        if self.types is not None and evidence.type not in self.types:
            return False
        if self.source_kinds is not None and evidence.source.kind not in self.source_kinds:
            return False
        at = evidence.created_at
        if self.since is not None and (at is None or at < self.since):
            return False
        if self.until is not None and (at is None or at >= self.until):
            return False
        nested = evidence.metadata.get("tags")
        tags = {**evidence.metadata, **(nested if isinstance(nested, Mapping) else {})}
        return all(tags.get(key) == value for key, value in (self.tags or {}).items())


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockFilter:
    """Which context blocks to list (seed 002 section 6.1); `min_priority` admits this one and all above it."""

    block_types: frozenset[BlockType] | None = None
    priorities: frozenset[Priority] | None = None
    min_priority: Priority | None = None
    limit: int | None = None

    def admits(self, block: ContextBlock) -> bool:
        """Say whether a block passes (but for `limit`)."""
        if self.block_types is not None and block.block_type not in self.block_types:
            return False
        if self.priorities is not None and block.priority not in self.priorities:
            return False
        rank = PRIORITY_ORDER.index
        return self.min_priority is None or rank(block.priority) <= rank(self.min_priority)


class EntryPlace(NamedTuple):
    """What tells an entry from all others: an id alone does not, for a world and a session may both use it."""

    scope: str
    chain: Chain
    entry_id: str


def place_of(entry: MemoryEntry) -> EntryPlace:
    """Return what tells an entry from all others."""
    return EntryPlace(entry.scope, entry.chain, entry.entry_id)


class Hit(NamedTuple):
    """One result of one arm. `score` is the arm's own: BM25 >= 0, or cosine in -1..1.

    `depth`: where it was said; `sequence`: its place in the order of writing.
    """

    entry_id: str
    score: float
    depth: int | None = None
    sequence: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievalQuery:
    """One recall (seed 004 section 6.2).

    `weights` are the plan's domain weights by chain (0..1, need not sum to 1). `recent` holds the last few messages,
    oldest first, for queries that lean on them. `exclude` holds entry ids already in the prompt (the history window) or
    hidden from `viewer`; `exclude_by_scope`, where it is given, says the same by scope, so that an id that means something
    else in another scope is not left out there. `entities` are ids of world entities found in the input. `quest_distances`
    counts the steps on the quest graph from the focused quest (0) to each quest near it. `extra` are entries that no index
    holds, such as finished quests made from the state; they are recalled beside the rest and gated by what is excluded
    only. What was said, done or summed up in turns from depth `shown_from` on stands in the prompt already and is not
    recalled; narratives of more than one turn are. `may_know` says of a fetched entry whether its reader may know it (None: all
    of them): a gate that was written while recall was under way holds, too.
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
    exclude_by_scope: Mapping[str, frozenset[str]] | None = None
    may_know: Callable[[MemoryEntry], bool] | None = field(default=None, compare=False, repr=False)

    def admits(self, entry: MemoryEntry) -> bool:
        """Say whether a fetched entry may be recalled: its reader may know it, and the prompt does not hold its turn."""
        return (self.may_know is None or self.may_know(entry)) and not self.is_in_prompt(entry)

    def excluded_ids(self, scope: str) -> frozenset[str]:
        """Return the ids that must not be recalled from a scope."""
        return self.exclude if self.exclude_by_scope is None else self.exclude_by_scope.get(scope, frozenset())

    def is_in_prompt(self, entry: MemoryEntry) -> bool:
        """Say whether the prompt holds the turn that an entry is about."""
        recent = self.shown_from is not None and entry.depth is not None and entry.depth >= self.shown_from
        return recent and entry.kind != MACRO


@dataclass(frozen=True, kw_only=True, slots=True)
class Signals:
    """Every score part a candidate got; None where that arm did not see it."""

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

    Ids of entries are unique in one scope only: `alias` is what a candidate is called in a recall that holds another one of
    its id.
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

    @property
    def name(self) -> str:
        """What it is called in its recall, as no other candidate is: its entry's id, or its alias."""
        return self.alias or self.entry_id

    @property
    def place(self) -> EntryPlace:
        """What tells its entry from all others."""
        return EntryPlace(self.scope, self.chain, self.entry_id)

    @property
    def source(self) -> str:
        """The seed's name of the chain: `rag_chain`, `narrative_chain`, `event_chain` or `history_chain`."""
        return "rag_chain" if self.chain is Chain.LORE else f"{self.chain.value}_chain"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recall:
    """Candidates, best first, with what was asked, what each step took and what had to be done without."""

    candidates: tuple[Candidate, ...]
    queries: tuple[str, ...] = ()
    degradations: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)
