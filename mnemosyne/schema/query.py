"""Defines the values of recall: queries, filters, hits of an index, and candidates with the parts of their scores.

Recall finds memory entries that are relevant to a text. A scope is the session or the world to which entries belong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
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
from mnemosyne.schema.session import BranchSpan, Role
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexFilter:
    """Filter of a search in an index: entries of one scope and some chains, from turns that lead to the head.

    Entries in `exclude` are left out.
    """

    scope: str
    chains: frozenset[Chain]
    lineage: tuple[BranchSpan, ...] | None = None
    """Parts of branches that lead to the head. None for scopes without branches (lore)."""
    exclude: frozenset[str] = frozenset()
    """Ids of entries that this viewer may not know or that the state hides. They are left out before ranking, never after it."""


PRIORITY_ORDER = (Priority.MUST, Priority.HIGH, Priority.MEDIUM, Priority.LOW)
"""Priorities of context blocks, highest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceFilter:
    """Filter of evidence items. An item passes if all given conditions are true."""

    types: frozenset[EvidenceType] | None = None
    source_kinds: frozenset[SourceKind] | None = None
    since: datetime | None = None
    """Only items of this time or later. The time of an item is `created_at`, or else the time when it was first stored.

    `since` and `until` may also be ISO 8601 texts with a time zone.
    """
    until: datetime | None = None
    """Only items from before this time."""
    tags: Mapping[str, str] | None = None
    """Key-value pairs that the item must have in `metadata`, or in `metadata["tags"]` if that is a mapping."""
    limit: int | None = None
    """Maximum number of items. The oldest items are kept, or the newest ones if `newest` is true."""
    newest: bool = False
    """Whether `limit` keeps the items that were written last. They are still listed in the order of writing."""
    evidence_ids: frozenset[str] | None = None
    without_memories: bool = False
    """Whether to leave out memories that turns recalled. In a long session, these are most of the evidence."""
    turn_ids: frozenset[str] | None = None
    """Only evidence that these turns found."""
    branch_id: str | None = None
    """Only evidence that is known on this branch (empty: on the branch of the reading turn, or else on the active branch).

    This is evidence of turns on the path to the branch's head, of the branch's pending turn, and of no turn. Stores apply this
    condition; `admits` ignores it.
    """
    known_to: frozenset[str] | None = None
    """Only evidence that a turn for these viewers may know (empty: a turn without a viewer). None: no condition."""

    def __post_init__(self) -> None:
        """Parse times that are texts. Raises ValueError if a text is not an ISO 8601 time, or if a time has no time zone."""
        for name in ("since", "until"):
            given: datetime | str | None = getattr(self, name)
            at = _read_time(name, given) if isinstance(given, str) else given
            if at is not None and at.utcoffset() is None:
                raise ValueError(
                    f"{name} is {str(given)!r}, which has no time zone; write one, as in 2026-01-31T12:00:00+00:00."
                )
            object.__setattr__(self, name, at)

    def admits(self, evidence: Evidence, written_at: datetime | None = None) -> bool:
        """Return whether an evidence item passes all conditions except `limit` and `branch_id`.

        `written_at` is the time when the item was first stored.
        """
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
        """Return the filter with `branch_id` if its own `branch_id` is empty, else the filter unchanged."""
        return replace(self, branch_id=branch_id) if self.branch_id == "" else self

    def may_know(self, readers: Collection[str]) -> bool:
        """Return whether an item that only `readers` may know (empty: everyone) passes the condition `known_to`."""
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
    """Filter of context blocks (units of a prompt). A block passes if all given conditions are true."""

    block_types: frozenset[BlockType] | None = None
    priorities: frozenset[Priority] | None = None
    min_priority: Priority | None = None
    """Only blocks of this priority or a higher one."""
    limit: int | None = None
    """Maximum number of blocks."""
    without_prefixes: tuple[str, ...] = ()
    """Leave out blocks whose ids begin with one of these texts."""

    def admits(self, block: ContextBlock) -> bool:
        """Return whether a block passes all conditions except `limit`."""
        if block.block_id.startswith(self.without_prefixes):
            return False
        if self.block_types is not None and block.block_type not in self.block_types:
            return False
        if self.priorities is not None and block.priority not in self.priorities:
            return False
        rank = PRIORITY_ORDER.index
        return self.min_priority is None or rank(block.priority) <= rank(self.min_priority)


class EntryPlace(NamedTuple):
    """Unique name of a memory entry. It includes the scope, because a world and a session may use the same id."""

    scope: str
    chain: Chain
    entry_id: str


def place_of(entry: MemoryEntry) -> EntryPlace:
    """Return the unique name of an entry."""
    return EntryPlace(entry.scope, entry.chain, entry.entry_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Hits:
    """Entries that a search of an index found, best first. Each field is a column with one value for each entry."""

    entry_ids: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    """Scores by the kind of search: BM25 (0 or more) for words, or cosine (-1 to 1) for vectors."""
    depths: tuple[int, ...] = ()
    """Depths of the entries' turns, or 0 for an entry without a turn."""
    sequences: tuple[int, ...] = ()
    """Places of the entries in the order of writing."""

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[str, float, int, int]]) -> Hits:
        """Return hits from rows (entry id, score, depth, sequence), best first."""
        if not rows:
            return NO_HITS
        entry_ids, scores, depths, sequences = zip(*rows, strict=True)
        return cls(entry_ids=entry_ids, scores=scores, depths=depths, sequences=sequences)

    def rows(self) -> Iterator[tuple[str, float, int, int]]:
        """Return the rows (entry id, score, depth, sequence), best first."""
        return zip(self.entry_ids, self.scores, self.depths, self.sequences, strict=True)

    def __len__(self) -> int:
        return len(self.entry_ids)


NO_HITS = Hits()


class RatedEntry(NamedTuple):
    """An entry with its worth for an overview (0 or more). An entry with worth 0 is left out."""

    entry: MemoryEntry
    worth: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievalQuery:
    """Query for one recall: the text, what is already in the prompt, and who may know the results."""

    text: str
    world_id: str
    session_id: str | None = None
    lineage: tuple[BranchSpan, ...] = ()
    """Parts of branches that lead to the session's head."""
    depth: int = 0
    keywords: tuple[str, ...] = ()
    speaker: str = Role.USER.value
    """Speaker of the text, as in the entries of the speaker's messages."""
    recent: tuple[str, ...] = ()
    """The last few messages, oldest first, because a text may refer to them."""
    earlier: tuple[str, ...] = ()
    """The messages before `recent`, oldest first. Recall only looks in them for what the talk is about."""
    temporal: str = "now"
    weights: Mapping[Chain, float] = field(default_factory=dict)
    """Weights by chain from the plan of the turn (0 to 1, they need not sum to 1)."""
    focus_quest_id: str | None = None
    exclude: frozenset[str] = frozenset()
    """Ids of entries that are already in the prompt or that the viewer may not know. They are not recalled."""
    limit: int = 50
    entities: tuple[str, ...] = ()
    """Ids of world entities found in the input."""
    quest_distances: Mapping[str, int] = field(default_factory=dict)
    """Number of steps in the quest graph from the focused quest to each quest near it. The focused quest has 0."""
    extra: tuple[MemoryEntry, ...] = ()
    """Entries that are in no index, such as finished quests from the state. They are recalled with the others. Of the
    filters, only the excluded ids apply to them.
    """
    shown_from: int | None = None
    """Depth of the oldest turn that is in the prompt. Messages, events and summaries of this turn and later ones are not
    recalled. Narratives of which more than half covers these turns are not recalled either.
    """
    shown_quests: frozenset[str] = frozenset()
    """Quests whose current state is in the prompt. Events that changed these quests are not recalled."""
    exclude_by_scope: Mapping[str, frozenset[str]] | None = None
    """Excluded ids by scope. If given, it replaces `exclude`, so that the same id in another scope can be recalled."""
    may_know: Callable[[MemoryEntry], bool] | None = field(default=None, compare=False, repr=False)
    """Returns whether the viewer may know a fetched entry (None: all entries). It is called late, so that a restriction that is
    written during recall applies too.
    """
    patience_seconds: float | None = None
    """Maximum wait for the vector of the query. If a model would have to be loaded first, recall does not wait for it. None:
    wait as long as the retriever does, loading included.
    """
    written: Mapping[tuple[str, Chain], int] | None = field(default=None, compare=False, repr=False)
    """Sequence (place in the order of writing) of the newest entry by scope and chain, when the turn began. The source is asked
    for chains that are missing here.
    """
    kept_entries: Mapping[str, Mapping[str, MemoryEntry]] = field(default_factory=dict, compare=False, repr=False)
    """Entries that recall need not read from the source, by scope and id."""
    rate: Callable[[Sequence[MemoryEntry]], Sequence[RatedEntry]] | None = field(
        default=None, compare=False, repr=False
    )
    """If given, recall makes an overview: it lists entries instead of searching, and `rate` returns them with their worth.

    The candidates are the best entries, spread over time, with their worth as score. `rate` may add entities to entries.
    """

    def admits(self, entry: MemoryEntry) -> bool:
        """Return whether a fetched entry may be recalled: the viewer may know it, and its content is not in the prompt."""
        return (self.may_know is None or self.may_know(entry)) and not self.is_in_prompt(entry)

    def excluded_ids(self, scope: str) -> frozenset[str]:
        """Return the ids that must not be recalled from a scope."""
        return self.exclude if self.exclude_by_scope is None else self.exclude_by_scope.get(scope, frozenset())

    def is_in_prompt(self, entry: MemoryEntry) -> bool:
        """Return whether the prompt already shows the entry's turn, or most of its turns, or its quest."""
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
    """One search for words in an index, for `Index.search_text`."""

    text: str | Mapping[str, float]
    where: IndexFilter
    limit: int
    beside: tuple[IndexFilter, ...] = ()
    """Filters of further entries. They are not returned, but they count for the statistics of the search: how rare a word is, and
    how long an entry usually is.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Signals:
    """All parts of a candidate's score. A part is None if that search or step did not return the candidate.

    `person` states how far a message means the persons whom the input names without having their names (0..1).
    """

    vector: float | None = None
    fts: float | None = None
    fused: float | None = None
    recency: float | None = None
    graph: float | None = None
    person: float | None = None
    rerank: float | None = None


SIGNAL_NAMES = tuple(each.name for each in fields(Signals))
"""Names of the parts of a candidate's score, in the order in which they are stored and shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A recalled entry that may be chosen for the prompt. Entry ids are unique only within a scope."""

    entry_id: str
    scope: str
    chain: Chain
    kind: str
    title: str
    preview: str
    """Preview of the text, at most 100 tokens long."""
    score: float
    """Score of the candidate. Scores of different recalls cannot be compared."""
    signals: Signals
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    depth: int | None = None
    turn_id: str | None = None
    trust: Trust = Trust.AUTHORED
    alias: str = ""
    """Name of the candidate if another candidate of the recall has the same entry id (empty: none has)."""
    keys: tuple[str, ...] = ()
    """Words by which the author of the entry wants it to be found."""

    @property
    def name(self) -> str:
        """Unique name of the candidate in the recall: its alias, or else the id of its entry."""
        return self.alias or self.entry_id

    @property
    def place(self) -> EntryPlace:
        """Unique name of the candidate's entry."""
        return EntryPlace(self.scope, self.chain, self.entry_id)

    @property
    def source(self) -> str:
        """Public name of the chain: `rag_chain`, `narrative_chain`, `event_chain` or `history_chain`."""
        return "rag_chain" if self.chain is Chain.LORE else f"{self.chain.value}_chain"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recall:
    """Result of one recall: the candidates, best first, with the queries that were searched.

    `degradations` are codes of steps that failed, and `timings_ms` are the durations of the steps.
    """

    candidates: tuple[Candidate, ...]
    queries: tuple[str, ...] = ()
    degradations: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)
