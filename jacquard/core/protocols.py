"""The seams of jacquard. An implementer keeps the numbered rules; the shipped contract suites test each by its number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from jacquard.core.blocks import PromptBlock, Sensitivity
from jacquard.core.model_calls import Call, CallBook
from jacquard.core.plan import PlanContext
from jacquard.core.receipt import BlockDecision
from mnemosyne.schema.document import ModelUsage
from mnemosyne.schema.evidence import Priority
from mnemosyne.schema.query import Candidate
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.world import WorldPack


class Planner(Protocol):
    """Decides what a turn is about.

    1. It always answers; it never raises for an input.
    2. A locked focus is never switched.
    3. The same view gives the same plan.

    A long input is planned in a worker thread, so several may be planned at once.
    """

    def plan(self, user_text: str, window: SessionWindow, world: WorldPack) -> PlanContext:
        """Return the plan of one turn."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanRequest:
    """What planner tier 1 is asked: the input, the newest messages (oldest first, `name: text`), the rules' plan, the world.

    `locked`: the focus may not move.
    """

    user_text: str
    recent: tuple[str, ...]
    plan: PlanContext
    window: SessionWindow
    world: WorldPack
    locked: bool = False


class PlanRefiner(Protocol):
    """Planner tier 1: makes the rules' plan better where they are not sure (spec T6).

    1. It makes one call and never repeats it.
    2. The plan it returns names only quests that are active, templates that the world has, and has the triage of the rules.
    3. A locked focus is not moved.
    4. When it cannot, it raises ModelError, with the calls that it took in `usages`; what it was given stands.
    """

    model: str

    async def refine(self, request: PlanRequest) -> tuple[PlanContext, tuple[ModelUsage, ...]]:
        """Return the better plan, with the model calls that it took; ModelError."""
        ...


class QueryPrefetcher(Protocol):
    """Makes the vectors of a query before recall asks for them (spec B8).

    1. It never raises; what could not be made is made when it is asked for.
    """

    async def prefetch(self, text: str, recent: Sequence[str] = (), keywords: Sequence[str] = ()) -> None:
        """Begin with the input, with the newest messages (oldest first) and the keywords that recall will lean on."""
        ...

    async def prefetch_recent(self, recent: Sequence[str]) -> None:
        """Begin with the newest messages (oldest first) before there is an input, because the next may lean on them."""
        ...


class Cancellation:
    """How long a caller waits for a choice: until `end`. The work for it may register to be notified of the end."""

    def __init__(self) -> None:
        self.is_over = False
        self._callbacks: list[Callable[[], None]] = []

    def on_end(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when the wait has ended; at once if it has already."""
        if self.is_over:
            callback()
        else:
            self._callbacks.append(callback)

    def end(self) -> None:
        """Wait no more."""
        if not self.is_over:
            self.is_over = True
            for callback in self._callbacks:
                callback()


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionRequest:
    """What a selector sees: the input, the newest messages (oldest first, `name: text`), and the candidates, best first.

    `locale` is the world's: the language of a prompt for a model. `patience` ends when the turn goes on without the choice;
    the call itself may go on for the next turn. A selector that calls a model notes each call in `calls` as it begins and as
    it ends, so that what it cost is in the session's model usage.
    """

    user_text: str
    recent: tuple[str, ...]
    plan: PlanContext
    candidates: tuple[Candidate, ...]
    limit: int
    locale: str = ""
    patience: Cancellation | None = field(default=None, compare=False, repr=False)
    calls: CallBook | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """A selector's choice: known ids only, each once, best first, at most `limit`. An empty choice is valid.

    `why` gives reasons by id where the selector gave any. `folded` maps an id that was left out as a near-duplicate to
    the one that stands for it. `counts` says what had to be mended in the answer.
    """

    entry_ids: tuple[str, ...]
    rationale: str = ""
    why: Mapping[str, str] = field(default_factory=dict)
    folded: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    model: str | None = None


class Selector(Protocol):
    """Chooses the few candidates that matter.

    1. The choice holds only ids of the request, each once, at most `limit`.
    2. An empty pool gives an empty choice.
    3. When it cannot choose it raises SelectorError; it never invents.
    """

    name: str

    async def select(self, request: SelectionRequest) -> Selection:
        """Return the choice; SelectorError with a code when there is none."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PruneBudget:
    """How much there is room for (seed 002 section 6.5): tokens in all, and at most so many for a priority tier.

    A tier without a quota takes what is left; MUST blocks have no quota, since they are never dropped.
    """

    max_tokens: int
    tier_tokens: Mapping[Priority, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class PruneRules:
    """What else decides (seed 002 section 6.5).

    `must_keep`: priorities that are never dropped. `ttl_seconds`: how old a block of a priority may be at `now`; a block
    without a time never grows old. `max_sensitivity`: what is more guarded than this is masked, or dropped when
    `mask` is false. `shorten_to` (0..1) and `shorten_least_tokens`: how long a block is that was degraded to a summary.
    """

    must_keep: frozenset[Priority] = frozenset({Priority.MUST})
    ttl_seconds: Mapping[Priority, float] = field(default_factory=dict)
    now: datetime | None = None
    max_sensitivity: Sensitivity = Sensitivity.SECRET
    mask: bool = True
    shorten_to: float = 0.25
    shorten_least_tokens: int = 24


NO_RULES = PruneRules()
"""Must is kept, nothing grows old, nothing is too guarded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PruneResult:
    """Kept, degraded and dropped blocks, each in the order given, and exactly one decision a block, in the order given.

    A degraded block is handed back as it came; its decision says by `code` what is to be done (`shortened`, `masked`) and
    by `tokens` how long it may be then. Whoever called has a summarizer or a redactor carry it out.
    """

    kept: tuple[PromptBlock, ...]
    decisions: tuple[BlockDecision, ...]
    degraded: tuple[PromptBlock, ...] = ()
    dropped: tuple[PromptBlock, ...] = ()


class Pruner(Protocol):
    """Fits blocks into a budget. Pure: it reads no clock, calls nothing, and the same arguments give the same result.

    1. Blocks of a priority in `must_keep` are never dropped; if they alone do not fit, BudgetExceededError names them.
    2. The tokens of all decisions that keep or degrade never exceed the budget, and those of a tier never its quota.
    3. Every block gets exactly one decision; kept, degraded and dropped together are all blocks, each in one of them.
    4. Blocks of one group live or die together: none is dropped while another stays.
    5. A bigger budget keeps everything that a smaller one kept, and drops nothing that a smaller one degraded.
    6. What is too old is dropped or degraded, unless it must be kept.
    7. What is more guarded than `max_sensitivity` is never kept as it is, not even where it must be kept.
    """

    def prune(self, blocks: Sequence[PromptBlock], budget: PruneBudget, rules: PruneRules = NO_RULES) -> PruneResult:
        """Return what fits into the budget."""
        ...


class Shortener(Protocol):
    """Makes one text shorter.

    1. The answer counts at most `limit_tokens`, is not empty, and says nothing that the text does not say.
    2. When it cannot, it raises SummarizerError; it never gives back half an answer.
    """

    name: str

    async def shorten(self, text: str, limit_tokens: int) -> str:
        """Return the text in fewer words."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationTurn:
    """One turn to be summed up: its words as `(speaker, text)` in order, and its summary in the narrative chain, if any."""

    turn_id: str
    depth: int
    lines: tuple[tuple[str, str], ...]
    gist: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryRequest:
    """Turns after those that `previous` covers (empty: none yet), oldest first, to become one summary of both."""

    turns: tuple[ConversationTurn, ...]
    previous: str
    limit_tokens: int
    locale: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryText:
    """A new summary. `model` is None where none was asked; token counts are None where it did not report them, `prompt`
    is what it was sent.
    """

    content: str
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt: str = ""

    def call(self, answer: str | None = None) -> Call:
        """Return the call that it took; `answer` is what came, where it is not the summary itself."""
        return Call(
            model=self.model or "",
            prompt=self.prompt,
            answer=self.content if answer is None else answer,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
        )


class Summarizer(Protocol):
    """Summarizes a conversation, continuing the summary before (seed 002 section 6.9).

    1. The answer is not empty and covers `previous` and the conversation, about as long as `limit_tokens` at most.
    2. An answer that lost what `previous` held is none: it raises SummarizerError, as for every failure.
    """

    name: str

    async def summarize(self, request: SummaryRequest) -> SummaryText:
        """Return the summary of `previous` and the conversation."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class LlmRequest:
    """A request to a small model: role messages as `(role, content)`.

    `schema` binds the answer where the provider can (JSON Schema); the caller checks the answer all the same.
    """

    messages: tuple[tuple[str, str], ...]
    max_tokens: int
    timeout_seconds: float
    temperature: float = 0.0
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LlmResponse:
    """A small model's answer; token counts are None where the provider did not report them."""

    content: str
    model: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class PairScorer(Protocol):
    """Says how well texts fit a query, by a model that reads both together.

    1. One score a text, in their order; higher is better. The same input gives the same scores.
    2. It works off the event loop, and fails only with a ModelError.
    """

    model: str

    async def warm(self) -> None:
        """Load what is slow to load."""
        ...

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the scores."""
        ...

    async def close(self) -> None:
        """Let the model go."""
        ...


class LlmAdapter(Protocol):
    """Calls one small model.

    1. It keeps `timeout_seconds` and never retries by itself.
    2. Any failure is a ModelError; cancellation passes through.
    """

    model: str

    async def warm(self) -> None:
        """Load what is slow to load, without calling the model."""
        ...

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Return one completion."""
        ...

    async def close(self) -> None:
        """Release connections and threads; calls that are under way end with a ModelError."""
        ...
