"""The seams of jacquard. An implementer keeps the numbered rules; the shipped contract suites test each by its number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jacquard.plan import PlanContext
from jacquard.report import BlockDecision
from jacquard.skein import PromptBlock
from mnemosyne.query import Candidate
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.world import WorldPack


class Planner(Protocol):
    """Decides what a turn is about.

    1. It always answers; it never raises for an input.
    2. A locked focus is never switched.
    3. The same view gives the same plan.
    """

    def plan(self, user_text: str, window: SessionWindow, world: WorldPack) -> PlanContext:
        """Return the plan of one turn."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionRequest:
    """What a selector sees: the input, the newest talk (oldest first, `name: text`), and the candidates, best first."""

    user_text: str
    recent: tuple[str, ...]
    plan: PlanContext
    candidates: tuple[Candidate, ...]
    limit: int


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
class PruneResult:
    """Kept blocks in the order given, and exactly one decision a block, in the order given."""

    kept: tuple[PromptBlock, ...]
    decisions: tuple[BlockDecision, ...]


class Pruner(Protocol):
    """Fits blocks into a budget. Pure.

    1. MUST blocks are never dropped; if they alone do not fit, BudgetExceededError names them.
    2. The tokens kept never exceed the budget.
    3. Every block gets exactly one decision; kept and dropped together are all blocks.
    4. Blocks of one group live or die together.
    5. A bigger budget keeps everything that a smaller one kept.
    """

    def prune(self, blocks: Sequence[PromptBlock], limit_tokens: int) -> PruneResult:
        """Return what fits into `limit_tokens`."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class LlmRequest:
    """A request to a small model: role messages as `(role, content)`."""

    messages: tuple[tuple[str, str], ...]
    max_tokens: int
    timeout_seconds: float
    temperature: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class LlmResponse:
    """A small model's answer; token counts are None where the provider did not report them."""

    content: str
    model: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


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
