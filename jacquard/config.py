"""Settings of a turn. Every field has a default; all of them are in a turn's fingerprint."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetConfig:
    """Tokens: the model's input limit and what is kept free for the reply."""

    max_input_tokens: int = 8192
    reserved_reply_tokens: int = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryConfig:
    """The history window: it grows to either limit, is then cut to `low_water` (0..1) of both, and grows again (A5)."""

    max_messages: int = 40
    max_tokens: int = 3000
    low_water: float = 0.6


@dataclass(frozen=True, kw_only=True, slots=True)
class CurationConfig:
    """Stream B. `deadline_ms` bounds the stream as a turn sees it (B5). `selector_timeout_ms` (None = as long as the
    deadline) makes the heuristic choose earlier than that. `background_seconds` bounds what goes on after the deadline.
    """

    enabled: bool = True
    recall_limit: int = 50
    select_limit: int = 5
    fallback_limit: int = 3
    deadline_ms: int = 1500
    selector_timeout_ms: int | None = None
    background_seconds: float = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectorConfig:
    """The small model behind the Flash Selector; no model means that the heuristic selects."""

    model: str | None = None
    api_base: str | None = None
    api_key: str | None = field(default=None, repr=False)
    max_tokens: int = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageConfig:
    """What a turn's ContextPackage may hold (seed 000 section 9); the prompt itself goes by the budget.

    `by_document` and `by_source` bound the evidence of one document (or turn) and of one chain; `recent_turns_max` the
    turns, each from one message of the user to the next; `snippets_max_chars` the text of one item.
    """

    by_document: int = 3
    by_source: int = 10
    recent_turns_max: int = 20
    snippets_max_chars: int = 800


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeConfig:
    """Everything that a caller may set for a turn. `viewer` is who is going to read the reply's knowledge (B7)."""

    layout: str = "classic"
    template_id: str | None = None
    viewer: str | None = None
    budget: BudgetConfig = BudgetConfig()
    history: HistoryConfig = HistoryConfig()
    curation: CurationConfig = CurationConfig()
    selector: SelectorConfig = SelectorConfig()
    package: PackageConfig = PackageConfig()
