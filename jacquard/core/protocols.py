"""Defines the protocols of jacquard: the parts of an engine that a host can replace, and the values that they exchange.

An implementation must keep the numbered rules of its protocol. The shipped contract suites test each rule by its number.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from jacquard.core.blocks import PlacedBlock, Sensitivity
from jacquard.core.model_calls import Call, CallBook
from jacquard.core.plan import PlanContext
from jacquard.core.receipt import BlockDecision
from mnemosyne.schema.document import ModelUsage
from mnemosyne.schema.evidence import Priority
from mnemosyne.schema.query import Candidate
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import also_named, dataclass


class Planner(Protocol):
    """Decides what a turn is about: kind of input, focus (the active quest), goal, template and search.

    1. It returns a plan for every input and never raises an error because of an input. 2. A locked focus is never
    switched. 3. Equal arguments give equal plans.

    A long input is planned in a worker thread, so several inputs may be planned at the same time.
    """

    def plan(self, user_message: str, window: SessionWindow, world: WorldPack) -> PlanContext:
        """Return the plan of one turn in `world`. `user_message` is the text of the input, and `window` ends with the
        previous turn.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanRequest:
    """Input of a `PlanRefiner` (the small model that improves a plan)."""

    user_message: str
    """Text of the input."""
    recent: tuple[str, ...]
    """Newest messages, oldest first, as `name: text`."""
    plan: PlanContext
    """Plan of the rules."""
    window: SessionWindow
    world: WorldPack
    locked: bool = False
    """True if the focus must not be changed."""


class PlanRefiner(Protocol):
    """Improves a plan with a small model (planner tier 1), if the rules that made the plan are not confident.

    1. It makes one model call and never repeats it.
    2. Its plan names only active quests and templates of the world, and has the same triage as the plan of the rules.
    3. It does not change a locked focus.
    4. If it fails, it raises ModelError with its calls in `usages`; the engine then uses the plan of the rules.
    """

    model: str

    async def refine(self, request: PlanRequest) -> tuple[PlanContext, tuple[ModelUsage, ...]]:
        """Return (plan, usages): the improved plan, and the records of the model calls that were made.

        Raises ModelError if the model cannot be called or its answer cannot be used.
        """
        ...


class QueryPrefetcher(Protocol):
    """Computes the vectors of a query before recall needs them.

    1. It never raises an error. A vector that could not be computed ahead is computed when recall needs it.
    """

    async def prefetch(self, text: str, recent: Sequence[str] = (), keywords: Sequence[str] = ()) -> None:
        """Begin to compute the vectors of the input `text`, the newest messages `recent` (oldest first) and `keywords`."""
        ...

    async def prefetch_recent(self, recent: Sequence[str]) -> None:
        """Begin to compute the vectors of the newest messages (oldest first), before the next input is known.

        The next input may refer to these messages.
        """
        ...


class IndexFeeder(Protocol):
    """Updates the indexes of recall from the store, between turns.

    1. A call may be cancelled at any time; the next call continues where the cancelled one stopped. 2. Recall finds new
    entries by their words even before they are in the index.
    """

    async def feed(self, scopes: Sequence[str], before_vectors: Callable[[], Awaitable[None]] | None = None) -> None:
        """Index the new entries of `scopes` (sessions and worlds); scopes that recall has not searched yet are skipped.

        `before_vectors` is awaited when the words of a scope are indexed, before its vectors are made.
        """
        ...

    async def warm(self) -> None:
        """Load the embedding models that are available."""
        ...


class Cancellation:
    """Signals that the caller no longer waits for a selection. The registered callbacks run when `end` is called."""

    def __init__(self) -> None:
        self.is_over = False
        self._callbacks: list[Callable[[], None]] = []

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the wait ends, or now if the wait has ended already."""
        if self.is_over:
            callback()
        else:
            self._callbacks.append(callback)

    def end(self) -> None:
        """End the wait and call the callbacks; further calls do nothing."""
        if not self.is_over:
            self.is_over = True
            for callback in self._callbacks:
                callback()


@dataclass(kw_only=True, slots=True)
class SelectionContext:
    """Mutable context of one selection. The request itself is immutable."""

    calls: CallBook = field(default_factory=CallBook)
    """Book in which a selector records the beginning and the end of each model call, so that the cost of the call is
    recorded in the session.
    """
    cancellation: Cancellation = field(default_factory=Cancellation)
    """Signal that the turn continues without this selection. The model call may still finish; the next turn can use it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionRequest:
    """Input of a selector."""

    user_message: str
    """Text of the input."""
    recent: tuple[str, ...]
    """Newest messages, oldest first, as `name: text`."""
    plan: PlanContext
    candidates: tuple[Candidate, ...]
    """Recalled memories, best first."""
    limit: int
    """Maximum number of memories to choose."""
    locale: str = ""
    """Locale of the world: the language of a prompt for a model."""
    searched_text: str = ""
    """Part of the input by which recall searched ('': the whole input)."""
    relevance_floor: float = 0.0
    """Minimum probability of relevance (0..1), for selectors that estimate this probability."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Candidates that a selector chose; may be empty."""

    entry_ids: tuple[str, ...]
    """Ids of the chosen candidates, best first, each once, at most `limit`."""
    rationale: str = ""
    """Reason for the whole choice, in one sentence, if the selector gave one. The prompt shows it before the memories."""
    why: Mapping[str, str] = field(default_factory=dict)
    """Id of a candidate -> reason for choosing it or not, if the selector gave one."""
    folded: Mapping[str, str] = field(default_factory=dict)
    """Id of each omitted near-duplicate -> id of the candidate kept instead."""
    below_floor: Mapping[str, float] = field(default_factory=dict)
    """Id of each candidate that is not relevant enough -> its probability of relevance (0..1)."""
    floor: float | None = None
    """Minimum probability of relevance (None: the selector has no minimum)."""
    of_full_turn: tuple[str, ...] = ()
    """Ids of candidates omitted because enough memories of the same past turn are chosen."""
    over_tokens: tuple[str, ...] = ()
    """Ids of candidates omitted because the chosen memories would take too many tokens."""
    unanswered: tuple[str, ...] = ()
    """Ids of candidates that are questions, omitted because nothing else of their turn was recalled."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Kind of correction of the selector's answer (for example unknown ids) -> how often it was made."""
    model: str | None = None


class Selector(Protocol):
    """Chooses the few candidates (recalled memories) that a prompt shows.

    1. The selection contains only ids of the request, each once, at most `limit`. 2. Without candidates the selection
    is empty. 3. A selector that cannot choose raises SelectorError; it never invents ids.
    """

    name: str

    async def select(self, request: SelectionRequest, context: SelectionContext | None = None) -> Selection:
        """Return the selection of at most `request.limit` candidates, best first. `context` is None outside of a turn.

        Raises SelectorError if no selection can be made; `code` of the error states the cause.
        """
        ...


@also_named(tier_budgets="tier_tokens")
@dataclass(frozen=True, kw_only=True, slots=True)
class PruneBudget:
    """Token limits of a prompt."""

    max_tokens: int
    """Limit of the whole prompt."""
    tier_tokens: Mapping[Priority, int] = field(default_factory=dict)
    """Priority -> limit of its blocks. A priority without a limit may take all tokens that are left. MUST has no limit, because
    its blocks are never dropped.
    """

    @property
    def tier_budgets(self) -> Mapping[Priority, int]:
        """The limits `tier_tokens`."""
        return self.tier_tokens


@also_named(must_keep_priorities="must_keep")
@dataclass(frozen=True, kw_only=True, slots=True)
class PruneRules:
    """Rules that decide about a block in addition to the budget."""

    must_keep: frozenset[Priority] = frozenset({Priority.MUST})
    """Priorities that are never dropped."""
    ttl_seconds: Mapping[Priority, float] = field(default_factory=dict)
    """Priority -> maximum age of its blocks at the time `now`. A block without a time never expires."""
    now: datetime | None = None
    max_sensitivity: Sensitivity = Sensitivity.SECRET
    """Blocks that are more sensitive are masked, or dropped if `mask` is false."""
    mask: bool = True
    shorten_to: float = 0.25
    """Tokens of a shortened block as a share (0..1) of the tokens of the complete block."""
    shorten_least_tokens: int = 24
    """Minimum tokens of a shortened block."""

    @property
    def must_keep_priorities(self) -> list[Priority]:
        """The priorities `must_keep`, most important first."""
        return [each for each in Priority if each in self.must_keep]


NO_RULES = PruneRules()
"""MUST blocks are kept, nothing expires, and no block is too sensitive."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PruneResult:
    """Result of pruning: kept, degraded and dropped blocks, each list in the order of the arguments."""

    kept: tuple[PlacedBlock, ...]
    """Blocks that go into the prompt unchanged."""
    decisions: tuple[BlockDecision, ...]
    """Exactly one decision for each block. For a degraded block, `code` states what the caller must do with the block
    (`shortened`, `cut`, `masked`), and `tokens` states the maximum length of the changed block.
    """
    degraded: tuple[PlacedBlock, ...] = ()
    """Blocks that the caller must change: shorten with a summarizer, cut, or withhold the text. The blocks in this list
    are still unchanged.
    """
    dropped: tuple[PlacedBlock, ...] = ()


class Pruner(Protocol):
    """Fits blocks into a budget. Pure: it reads no clock and calls nothing, and equal arguments give equal results.

    1. Blocks of a priority in `must_keep` are never dropped; if these blocks do not fit, BudgetExceededError names them.
    2. The tokens of all kept and degraded blocks never exceed the budget. The tokens of one priority never exceed its limit.
    3. Every block has exactly one decision and is either kept, degraded or dropped.
    4. Blocks of one group are kept or dropped together: none is dropped while another stays.
    5. A bigger budget keeps every block that a smaller budget kept, and drops no block that a smaller budget degraded.
    6. An expired block is dropped or degraded, unless it must be kept.
    7. A block more sensitive than `max_sensitivity` is never kept unchanged, even if it must be kept.
    """

    def prune(self, blocks: Sequence[PlacedBlock], budget: PruneBudget, rules: PruneRules = NO_RULES) -> PruneResult:
        """Return the blocks that fit into the budget, each list in the order of `blocks`.

        Raises BudgetExceededError if the blocks that must be kept exceed the budget, even without all other blocks.
        """
        ...


class Shortener(Protocol):
    """Makes one text shorter.

    1. The answer has at most `limit_tokens` tokens, is not empty, and states nothing that is not in the text. 2. A
    shortener that cannot shorten the text raises SummarizerError; it never returns half an answer.
    """

    name: str

    async def shorten(self, text: str, limit_tokens: int) -> str:
        """Return the text in fewer words, at most `limit_tokens` tokens.

        Raises SummarizerError if the text cannot be shortened that far.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationTurn:
    """One turn to be summarized."""

    turn_id: str
    depth: int
    """Number of the turn on its branch, counted from 1."""
    lines: tuple[tuple[str, str], ...]
    """Texts of the turn in order, as (speaker, text)."""
    gist: str = ""
    """Summary of the turn that is stored as a memory ('': none)."""
    changes: tuple[str, ...] = ()
    """Changes that the turn made to the state, one text for each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryRequest:
    """Input of a summarizer."""

    turns: tuple[ConversationTurn, ...]
    """Turns that `previous` does not cover yet, oldest first."""
    previous: str
    """Summary to continue ('': none)."""
    limit_tokens: int
    locale: str = ""
    player: str = ""
    """Name of the player's character in a story ('' outside of one)."""
    narrator: str = ""
    """Name of the narrator in a story ('' outside of one)."""
    names: tuple[str, ...] = ()
    """Names of the people, places and things of the story."""
    background: str = ""
    """The world's texts about the people, places and things that occur in the turns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryText:
    """New summary, and the model call that made it."""

    content: str
    model: str | None = None
    """Name of the model (None: no model was called)."""
    prompt_tokens: int | None = None
    """Tokens that the provider reported (None: not reported). `completion_tokens` has the same meaning for the answer."""
    completion_tokens: int | None = None
    prompt: str = ""
    """Text that was sent."""
    dropped_lines: int = 0
    """Lines omitted to keep the limit, if the summarizer counts them."""
    unused_calls: tuple[Call, ...] = ()
    """Earlier calls whose answers could not be used."""

    def call(self, answer: str | None = None) -> Call:
        """Return the model call that made the summary. `answer` is the model's answer (None: the summary itself)."""
        return Call(
            model=self.model or "",
            prompt=self.prompt,
            answer=self.content if answer is None else answer,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
        )


class Summarizer(Protocol):
    """Summarizes a conversation, continuing the previous summary.

    1. The answer is not empty, covers `previous` and the conversation, and has about `limit_tokens` tokens at most. If
    the answer would be longer, lines of its oldest part are omitted, and `dropped_lines` counts them. 2. An answer that
    lost the content of `previous` counts as a failure. Every failure raises SummarizerError.
    """

    name: str

    async def summarize(self, request: SummaryRequest) -> SummaryText:
        """Return the summary of `previous` and the conversation, about `request.limit_tokens` tokens at most.

        Raises SummarizerError if there is nothing to summarize, the model fails, or its answer cannot be used.
        """
        ...


class MessagePart(NamedTuple):
    """One message of a request to a small model."""

    role: str
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LlmRequest:
    """Request to a small model."""

    messages: tuple[MessagePart, ...]
    """Messages in order. A pair (role, content) is accepted too and becomes a `MessagePart`."""
    max_tokens: int
    timeout_seconds: float
    temperature: float = 0.0
    schema: Mapping[str, Any] | None = None
    """JSON Schema for the answer, used if the provider supports it; the caller checks the answer in any case."""
    model: str | None = None
    """Name of the model (None: the model of the adapter)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", tuple(MessagePart(*message) for message in self.messages))


@dataclass(frozen=True, kw_only=True, slots=True)
class LlmResponse:
    """Answer of a small model. A count or a time is None if it was not reported."""

    content: str
    model: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    latency_ms: int | None = None
    finish_reason: str | None = None
    """Provider's reason for the end of the answer, such as `length` if a token limit cut the answer off (None: not
    reported).
    """


class PairScorer(Protocol):
    """Scores how well texts fit a query, with a model that reads the query and a text together.

    1. It returns one score for each text, in the order of the texts; higher is better, on the model's own scale. Equal inputs
       get equal scores.
    2. It works off the event loop, and raises only ModelError.
    """

    model: str

    async def warm(self) -> None:
        """Load the model.

        Raises ModelError if the model cannot be loaded.
        """
        ...

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score for each of `texts`, in their order; higher is better.

        Raises ModelError if the model cannot be loaded or fails.
        """
        ...

    async def close(self) -> None:
        """Release the model."""
        ...


class GeneratesText(Protocol):
    """Calls a model with one method only; an engine wraps it as a full `LlmAdapter`."""

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Return one completion. The engine treats any exception as a ModelError."""
        ...


class LlmAdapter(Protocol):
    """Calls one small model.

    1. It observes `timeout_seconds` of the request and never retries by itself. 2. Any failure raises ModelError. A
    cancellation is not caught.
    """

    model: str

    async def warm(self) -> None:
        """Load slow parts without calling the model.

        Raises ModelError if the parts cannot be loaded.
        """
        ...

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Return one completion.

        Raises ModelError if the call times out, the provider refuses it or cannot be reached, or the answer has no text.
        """
        ...

    async def close(self) -> None:
        """Release connections and threads; running calls end with a ModelError."""
        ...
