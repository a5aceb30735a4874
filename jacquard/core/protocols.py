"""The protocols of jacquard. An implementer keeps the numbered rules; the shipped contract suites test each rule by its
number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

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

    def plan(self, user_message: str, window: SessionWindow, world: WorldPack) -> PlanContext:
        """Return the plan of one turn. `user_message` is the text of the input, `window` ends with the turn before it."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanRequest:
    """What planner tier 1 gets: the input, the newest messages (oldest first, `name: text`), the plan of the rules, and
    the world.

    `locked`: the focus must not be changed.
    """

    user_message: str
    recent: tuple[str, ...]
    plan: PlanContext
    window: SessionWindow
    world: WorldPack
    locked: bool = False


class PlanRefiner(Protocol):
    """Planner tier 1: improves the plan of the rules where they are not confident.

    1. It makes one model call and never repeats it.
    2. Its plan names only active quests and templates of the world, and has the triage of the rules.
    3. A locked focus is not moved.
    4. When it fails it raises ModelError with its calls in `usages`; the plan of the rules is then used.
    """

    model: str

    async def refine(self, request: PlanRequest) -> tuple[PlanContext, tuple[ModelUsage, ...]]:
        """Return the improved plan, and the model calls that it took.

        Raises ModelError when the model cannot be called or its answer cannot be used.
        """
        ...


class QueryPrefetcher(Protocol):
    """Computes the vectors of a query before recall asks for them.

    1. It never raises; a vector that could not be computed ahead is computed when recall asks for it.
    """

    async def prefetch(self, text: str, recent: Sequence[str] = (), keywords: Sequence[str] = ()) -> None:
        """Begin with the input, with the newest messages (oldest first) and the keywords that recall will lean on."""
        ...

    async def prefetch_recent(self, recent: Sequence[str]) -> None:
        """Begin with the newest messages (oldest first) before there is an input, because the next may lean on them."""
        ...


class IndexFeeder(Protocol):
    """Brings what recall searches up to date with the store, behind turns.

    1. A call may be cancelled at any time; the next one continues where it ended.
    2. Recall meanwhile finds what is new, by words at least.
    """

    async def feed(self, scopes: Sequence[str]) -> None:
        """Index what was written to the scopes, as far as recall has searched them before."""
        ...

    async def warm(self) -> None:
        """Load the embedding models, as far as they are available."""
        ...


class Cancellation:
    """Tells the work on a selection that its caller has stopped waiting; callbacks run when `end` is called."""

    def __init__(self) -> None:
        self.is_over = False
        self._callbacks: list[Callable[[], None]] = []

    def on_end(self, callback: Callable[[], None]) -> None:
        """Register `callback` to be called when the wait ends; it is called at once if the wait has already ended."""
        if self.is_over:
            callback()
        else:
            self._callbacks.append(callback)

    def end(self) -> None:
        """Stop waiting and call the callbacks. Further calls do nothing."""
        if not self.is_over:
            self.is_over = True
            for callback in self._callbacks:
                callback()


@dataclass(kw_only=True, slots=True)
class SelectionContext:
    """What changes while a selection is made, beside the request, which does not change.

    `cancellation` ends when the turn continues without a selection; the model call itself may continue and serve the next
    turn. A selector that calls a model records each call in `calls` when it begins and when it ends, so that the
    session's model usage holds its cost.
    """

    calls: CallBook = field(default_factory=CallBook)
    cancellation: Cancellation = field(default_factory=Cancellation)


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionRequest:
    """What a selector gets: the input, the newest messages (oldest first, `name: text`), and the candidates, best
    first.

    `locale` is the world's: the language of a prompt for a model. `searched_text` is the part of the input that was searched for
    (empty: all of it). `relevance_floor` (0..1): how likely relevant a candidate must be for a selector that can tell.
    """

    user_message: str
    recent: tuple[str, ...]
    plan: PlanContext
    candidates: tuple[Candidate, ...]
    limit: int
    locale: str = ""
    searched_text: str = ""
    relevance_floor: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The candidates that a selector chose: known ids only, each once, best first, at most `limit`. It may be empty.

    `why` gives reasons by id where the selector gave any, for what was not chosen too. `folded` maps the id of a near-duplicate
    that was left out to the id that is kept for it. `below_floor` maps the ids of what was not relevant enough to how likely it is
    relevant (0..1); `floor` is how likely it must be (None: the selector has no floor). `of_full_turn` are ids whose turn has as
    many chosen ones as it may have. `over_tokens` are ids that were chosen, and then left out because the memories would take too
    many tokens; `unanswered` are questions that were chosen, and then left out because nothing else of their turn was recalled.
    `counts` says what had to be corrected in the answer.
    """

    entry_ids: tuple[str, ...]
    rationale: str = ""
    why: Mapping[str, str] = field(default_factory=dict)
    folded: Mapping[str, str] = field(default_factory=dict)
    below_floor: Mapping[str, float] = field(default_factory=dict)
    floor: float | None = None
    of_full_turn: tuple[str, ...] = ()
    over_tokens: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    model: str | None = None


class Selector(Protocol):
    """Chooses the few candidates that matter.

    1. The selection holds only ids of the request, each once, at most `limit`.
    2. Without candidates the selection is empty.
    3. When it cannot choose it raises SelectorError; it never invents ids.
    """

    name: str

    async def select(self, request: SelectionRequest, context: SelectionContext | None = None) -> Selection:
        """Return the chosen ids, best first, at most `request.limit`. `context`: None outside of a turn.

        Raises SelectorError, whose `code` names the cause, when no selection can be made.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PruneBudget:
    """The room that a prompt has: tokens in all, and the most tokens of each priority tier.

    A tier without a quota may take all that is left; MUST blocks have no quota, since they are never dropped.
    """

    max_tokens: int
    tier_tokens: Mapping[Priority, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class PruneRules:
    """The rules besides the budget that decide about a block.

    `must_keep`: priorities that are never dropped. `ttl_seconds`: how old a block of a priority may be at `now`; a
    block without a time never expires. `max_sensitivity`: more sensitive blocks are masked, or dropped when `mask` is
    false. `shorten_to` (0..1) and `shorten_least_tokens`: how long a shortened block is, as a share of its tokens and
    at least. `defer_oversize`: a block that is far longer than the others comes after all of them, so that it does not keep
    them out; `cut_authored`: an authored block (`jacquard.core.block_kinds.AUTHORED`) for which there is not room enough is
    cut (both are off for records of releases that did not).
    """

    must_keep: frozenset[Priority] = frozenset({Priority.MUST})
    ttl_seconds: Mapping[Priority, float] = field(default_factory=dict)
    now: datetime | None = None
    max_sensitivity: Sensitivity = Sensitivity.SECRET
    mask: bool = True
    shorten_to: float = 0.25
    shorten_least_tokens: int = 24
    defer_oversize: bool = True
    cut_authored: bool = True


NO_RULES = PruneRules()
"""Must is kept, nothing grows old, nothing is too guarded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PruneResult:
    """Kept, degraded and dropped blocks, and exactly one decision for each block, all in the order given.

    A degraded block is returned unchanged. Its decision says by `code` what must be done to it (`shortened`, `cut`, `masked`)
    and by `tokens` how long it may be afterwards. The caller has a summarizer shorten it, shows its beginning, or withholds its
    text.
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
    4. Blocks of one group are kept or dropped together: none is dropped while another stays.
    5. A bigger budget keeps everything that a smaller one kept, and drops nothing that a smaller one degraded.
    6. What is too old is dropped or degraded, unless it must be kept.
    7. A block more sensitive than `max_sensitivity` is never kept unchanged, not even where it must be kept.
    """

    def prune(self, blocks: Sequence[PromptBlock], budget: PruneBudget, rules: PruneRules = NO_RULES) -> PruneResult:
        """Return what fits into the budget, each list in the order of `blocks`.

        Raises BudgetExceededError when the blocks that must be kept do not fit by themselves.
        """
        ...


class Shortener(Protocol):
    """Makes one text shorter.

    1. The answer counts at most `limit_tokens`, is not empty, and says nothing that the text does not say.
    2. When it cannot, it raises SummarizerError; it never returns half an answer.
    """

    name: str

    async def shorten(self, text: str, limit_tokens: int) -> str:
        """Return the text in fewer words, at most `limit_tokens` tokens.

        Raises SummarizerError when the text cannot be shortened that far.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationTurn:
    """One turn to be summarized: its texts as `(speaker, text)` in order, its summary in the narrative chain, if it
    has one, and what it changed in the state, one text a change.
    """

    turn_id: str
    depth: int
    lines: tuple[tuple[str, str], ...]
    gist: str = ""
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryRequest:
    """Turns that follow those covered by `previous` (empty: none yet), oldest first, to be combined with it into one
    summary.

    `player` and `narrator` are the names of the two parties of a story ('' outside of one), `names` those of its people, places
    and things, `background` what the world tells of those who occur.
    """

    turns: tuple[ConversationTurn, ...]
    previous: str
    limit_tokens: int
    locale: str = ""
    player: str = ""
    narrator: str = ""
    names: tuple[str, ...] = ()
    background: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryText:
    """A new summary.

    `model` is None where no model was called; token counts are None where the provider did not report them; `prompt` is
    the text that was sent. `dropped_lines`: what was left out to keep the limit, as a summarizer that counts it says.
    `unused_calls` are calls before this one whose answers could not be used.
    """

    content: str
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt: str = ""
    dropped_lines: int = 0
    unused_calls: tuple[Call, ...] = ()

    def call(self, answer: str | None = None) -> Call:
        """Return the model call behind the summary; `answer` is the model's answer, where it is not the summary itself."""
        return Call(
            model=self.model or "",
            prompt=self.prompt,
            answer=self.content if answer is None else answer,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
        )


class Summarizer(Protocol):
    """Summarizes a conversation, continuing the previous summary.

    1. The answer is not empty and covers `previous` and the conversation, about as long as `limit_tokens` at most. What does
       not fit is left out of its oldest part and counted (`dropped_lines`).
    2. An answer that lost the content of `previous` counts as a failure; every failure is a SummarizerError.
    """

    name: str

    async def summarize(self, request: SummaryRequest) -> SummaryText:
        """Return the summary of `previous` and the conversation, about `request.limit_tokens` tokens at most.

        Raises SummarizerError when there is nothing to summarize, the model fails, or its answer cannot be used.
        """
        ...


class MessagePart(NamedTuple):
    """One message of a request to a small model."""

    role: str
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LlmRequest:
    """A request to a small model: role messages as `MessagePart`, or as pairs `(role, content)`.

    `schema` (JSON Schema) constrains the answer where the provider supports that; the caller checks the answer in any
    case. `model` is None: the adapter knows its model.
    """

    messages: tuple[MessagePart, ...]
    max_tokens: int
    timeout_seconds: float
    temperature: float = 0.0
    schema: Mapping[str, Any] | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", tuple(MessagePart(*message) for message in self.messages))


@dataclass(frozen=True, kw_only=True, slots=True)
class LlmResponse:
    """A small model's answer; token counts and times are None where they were not reported.

    `finish_reason` is the provider's word for why the answer ended: `length` if a limit cut it off.
    """

    content: str
    model: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    latency_ms: int | None = None
    finish_reason: str | None = None


class PairScorer(Protocol):
    """Scores how well texts fit a query, with a model that reads both together.

    1. One score for each text, in their order; higher is better, and the scale is the model's own.
       The same input gives the same scores.
    2. It works off the event loop, and raises nothing but ModelError.
    """

    model: str

    async def warm(self) -> None:
        """Load what is slow to load. Raises ModelError when the model cannot be loaded."""
        ...

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score for each text, in their order; higher is better.

        Raises ModelError when the model cannot be loaded or fails.
        """
        ...

    async def close(self) -> None:
        """Release the model."""
        ...


class GeneratesText(Protocol):
    """The least that an adapter has; an engine completes it to an `LlmAdapter`."""

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Return one completion; whatever it raises counts as a ModelError."""
        ...


class LlmAdapter(Protocol):
    """Calls one small model.

    1. It keeps `timeout_seconds` and never retries by itself.
    2. Any failure is a ModelError; cancellation passes through.
    """

    model: str

    async def warm(self) -> None:
        """Load what is slow to load, without calling the model. Raises ModelError when that fails."""
        ...

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Return one completion.

        Raises ModelError when the call times out, the provider refuses it or cannot be reached, or the answer holds no
        text.
        """
        ...

    async def close(self) -> None:
        """Release connections and threads; calls that are under way end with a ModelError."""
        ...
