"""Settings of a turn (seed 002 section 15). Every field has a default and its bounds; a value out of them is a ConfigError.

What changes a prompt is in a turn's fingerprint; what only watches it (`observability`, `tags`) is not. Files and the
environment are read in `jacquard.config.settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from jacquard.config.fields import bounded, by_word, check, one_of, some_of
from jacquard.core.blocks import Sensitivity
from jacquard.core.errors import ConfigError
from mnemosyne.core.addresses import shown_address
from mnemosyne.schema.evidence import EvidenceType, Priority
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.redaction import RedactionRules

API_KEY, API_BASE = "api_key", "api_base"
"""The settings of a model that are secret, or may hold what is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetConfig:
    """Tokens: the model's input limit and what is kept free for the reply. `reserved_tail_tokens` is kept
    free for the tool calls and results of a tool loop (`assemble`). `tier_tokens` bounds what the blocks of a
    priority (`high`, `medium`, `low`) may take together (seed 002 section 8.1); without a bound they take what is left.
    `state_share` (0..1) of a prompt is the most that the state (status and active quests) may take; a larger one is shown
    shortened, and so is one that does not fit beside what else must be in the prompt.
    """

    max_input_tokens: int = bounded(8192, 1)
    reserved_reply_tokens: int = bounded(1024, 0)
    reserved_tail_tokens: int = bounded(0, 0)
    tier_tokens: Mapping[str, int] = by_word(Priority, 0)
    state_share: float = bounded(0.75, 0, 1)

    def __post_init__(self) -> None:
        check(self)
        kept_free = self.reserved_reply_tokens + self.reserved_tail_tokens
        if kept_free >= self.max_input_tokens:
            raise ConfigError(
                f"BudgetConfig: max_input_tokens {self.max_input_tokens} leaves nothing for the prompt, as "
                f"{self.reserved_reply_tokens} are kept free for the reply and {self.reserved_tail_tokens} for tails"
            )

    def prompt_tokens(self, correction: float = 1.0) -> int:
        """Return what a prompt may take by our own count; `correction` is the factor from it to what providers report."""
        return int((self.max_input_tokens - self.reserved_reply_tokens - self.reserved_tail_tokens) / correction)


@dataclass(frozen=True, kw_only=True, slots=True)
class PruneConfig:
    """What decides when the budget is short (seed 002 sections 6.5 and 15).

    `policy`: `greedy_priority`, `group_aware` (blocks of one evidence live or die together), `degrade_to_summary` (shortens
    before it drops), or a pruner of the host's by its name. `must_keep_priorities` are never dropped; `must` is always one.
    `ttl_seconds` by priority: older blocks leave. `max_sensitivity`: what is more guarded (`public`, `internal`,
    `confidential`, `secret`) is masked, or dropped when `mask` is off. `shorten_to` (0..1) is the share that stays of a text
    that is shortened, at least `shorten_least_tokens`.
    """

    policy: str = "greedy_priority"
    must_keep_priorities: tuple[str, ...] = some_of(("must",), *Priority)
    ttl_seconds: Mapping[str, float] = by_word(Priority, 0)
    max_sensitivity: str = one_of("secret", *Sensitivity)
    mask: bool = True
    shorten_to: float = bounded(0.25, 0, 1)
    shorten_least_tokens: int = bounded(24, 1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryConfig:
    """The history window: it grows to either limit, is then cut to `low_water` (0..1) of both, and grows again (A5)."""

    max_messages: int = bounded(60, 0)
    max_tokens: int = bounded(3000, 0)
    low_water: float = bounded(0.5, 0, 1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class CurationConfig:
    """Stream B. `deadline_ms` bounds the stream as a turn sees it (B5). `selector_timeout_ms` (None = as long as the
    deadline) makes the heuristic choose earlier than that. `background_seconds` bounds what goes on after the deadline. A memory
    of more than `max_entry_tokens` shows its first sentences (seed 002 section 6.6).

    `lease_turns` (0 = off): for how many further turns a selector's choice may serve while the scene holds, so that no model is
    asked. It ends where something that was not chosen scores more than `lease_margin` times the best that was.
    """

    enabled: bool = True
    recall_limit: int = bounded(50, 1, 1000)
    select_limit: int = bounded(5, 0, 50)
    fallback_limit: int = bounded(3, 0, 50)
    deadline_ms: int = bounded(1500, 0)
    selector_timeout_ms: int | None = bounded(None, 0)
    background_seconds: float = bounded(30.0, 0)
    max_entry_tokens: int = bounded(600, 1)
    lease_turns: int = bounded(0, 0, 50)
    lease_margin: float = bounded(1.25, 1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectorConfig:
    """Who selects: the small `model` of the Flash Selector, or a `reranker` (the folder of a local cross-encoder); with neither the
    heuristic does.

    After `failure_limit` failures in a row it is left alone for `reset_seconds` (the circuit breaker).
    """

    model: str | None = None
    api_base: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    reranker: str | None = None
    max_tokens: int = bounded(400, 1)
    failure_limit: int = bounded(3, 1)
    reset_seconds: float = bounded(30.0, 0)

    def __post_init__(self) -> None:
        check(self)
        if self.model is not None and self.reranker is not None:
            raise ConfigError("SelectorConfig: name a model or a reranker; only one of them can select")


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageConfig:
    """What a turn's ContextPackage may hold (seed 000 section 9); the prompt itself goes by the budget.

    `by_document` and `by_source` bound the evidence of one document (or turn) and of one chain; `recent_turns_max` the
    turns, each from one message of the user to the next; `snippets_max_chars` the text of one item.
    """

    by_document: int = bounded(3, 1)
    by_source: int = bounded(10, 1)
    recent_turns_max: int = bounded(20, 0)
    snippets_max_chars: int = bounded(800, 1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannerConfig:
    """Planner tier 1 (spec T6): one call of a small model where the rules are not sure. No model means rules only.

    It is asked below `confidence_threshold` (None: the world's, 0.6) and waited for at most `timeout_ms`. `focus` locks the
    spotlight on a quest of the session; neither the rules nor the model move it then.
    """

    model: str | None = None
    api_base: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    max_tokens: int = bounded(300, 1)
    timeout_ms: int = bounded(500, 1)
    confidence_threshold: float | None = bounded(None, 0, 1)
    focus: str | None = None

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryConfig:
    """When a rolling summary is made, and how long (seed 002 section 6.9). No model means the gist of each turn.

    A session below both triggers is not summed up, and the last `preserve_recent_messages` never are. A turn waits for a
    model's summary at most `timeout_ms`; the call itself may take `background_seconds`, for the turns after it.
    """

    enabled: bool = True
    model: str | None = None
    api_base: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    max_summary_tokens: int = bounded(512, 1)
    trigger_message_count: int = bounded(20, 1)
    trigger_token_threshold: int = bounded(4096, 1)
    preserve_recent_messages: int = bounded(5, 0)
    timeout_ms: int = bounded(800, 0)
    background_seconds: float = bounded(60.0, 1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsolidationConfig:
    """Turning what was played into memory, off the turns' path: a summary of each turn, events, narratives over many turns.

    Every `every_turns` committed turns of a branch it runs by itself behind a commit (0: only when it is called). A narrative
    spans `macro_turns`, fewer where a chapter ends. It uses the model of its own, or that of `summary`; no model, no memory.
    """

    model: str | None = None
    api_base: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    every_turns: int = bounded(8, 0)
    batch_turns: int = bounded(8, 1, 50)
    macro_turns: int = bounded(30, 20, 50)
    chapter_least_turns: int = bounded(4, 1, 50)
    timeout_seconds: float = bounded(90.0, 1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class RedactionConfig:
    """What is taken out of evidence before it is kept (seed 002 section 8.4); `dual_store` keeps the original apart.

    When redaction fails the text is withheld; `on_failure: pass_through` lets it in as it is, marked (section 18.2).
    `detector`: `presidio` looks beside the patterns (extra `pii`).
    """

    enabled: bool = True
    mode: str = one_of("store_redacted_only", "store_redacted_only", "dual_store")
    rules: RedactionRules | None = None
    on_failure: str = one_of("withhold", "withhold", "pass_through")
    detector: str = one_of("none", "none", "presidio")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceConfig:
    """What becomes of evidence (spec 3.6).

    The newest `limit` results of tools and searches stand in the prompt, each with at most `max_tokens` of its beginning (seed
    002 section 6.6). `conflict_policy` decides where two of them
    contradict each other (seed 002 section 8.3). `ttl_seconds` by type (`tool_result`, `rag_doc`, …): older evidence is used
    no more. With `store_content` off a pointer and a hash are kept, no text (section 13).
    """

    enabled: bool = True
    limit: int = bounded(6, 0, 100)
    max_tokens: int = bounded(600, 1)
    conflict_policy: str = one_of(
        "keep_both_and_warn", "prefer_tool_over_rag", "prefer_latest_by_at", "keep_both_and_warn"
    )
    ttl_seconds: Mapping[str, float] = by_word(EvidenceType, 0)
    store_content: bool = True

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservabilityConfig:
    """What is told of a turn (seed 002 section 9).

    `include_reports_in_store` keeps the receipt's decisions with the turn. `tracing` opens OpenTelemetry spans (extra `otel`),
    `metrics` counts for Prometheus (extra `prometheus`); `capture_content` lets spans and events hold what was said.
    """

    emit_events: bool = True
    include_reports_in_store: bool = True
    tracing: bool = False
    metrics: bool = False
    capture_content: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkConfig:
    """A reply that comes in chunks: one that grows no more for `expire_seconds` is forgotten.

    Of `max_chars` and `limits.reply_chars` the smaller counts.
    """

    expire_seconds: float = bounded(600.0, 1)
    max_chars: int = bounded(2_000_000, 1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitsConfig:
    """The largest inputs that a session takes; what is larger is refused with `InputTooLargeError` and changes nothing.

    `user_message_chars` and `reply_chars` bound one message of the user and one reply of the model, whole or in chunks;
    `tool_result_chars` bounds what one tool call gave. Of the ops of one reply at most `reply_ops` are judged, the value of
    one may take `op_value_chars` as JSON text, and an op that would make the whole state longer than `state_chars` as JSON
    text is refused.
    """

    user_message_chars: int = bounded(100_000, 1)
    reply_chars: int = bounded(500_000, 1)
    tool_result_chars: int = bounded(2_000_000, 1)
    reply_ops: int = bounded(500, 1)
    op_value_chars: int = bounded(8_000, 1)
    state_chars: int = bounded(400_000, 1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class LockConfig:
    """Calls on one session are serial, also across processes; `wait_seconds` bounds the wait for another (StoreBusyError)."""

    wait_seconds: float = bounded(60.0, 0)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmConfig:
    """One arm of an A/B experiment: its `share` of the sessions (of the sum of all shares), and the settings that it changes."""

    share: float = bounded(1.0, 0)
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class LayersConfig:
    """Which layers of context a call sees (seed 003). `process`: the part that this agent plays. `enable_share_context`: whether
    it gets the blocks that agents share; None leaves it to the process.
    """

    process: str = one_of(
        "sequential",
        "sequential",
        "dynamic",
        "hierarchical",
        "react",
        "mapreduce_worker",
        "mapreduce_planner",
        "mapreduce_reducer",
    )
    enable_share_context: bool | None = None

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeConfig:
    """Everything that a caller may set for a turn. `viewer` is who is going to read the reply's knowledge (B7).

    `model_hint` and `provider_hint` name the main model: its reported usage corrects the token estimate. `tags` go with every
    event and span (A/B, framework); they change no prompt. `instructions`, by name, stand behind the world's own and are never
    dropped (seed 002 section 6.4). `experiments`: arms by name, by experiment; a session is in one arm
    of each (`jacquard.config.experiments`).
    """

    layout: str = "classic"
    template_id: str | None = None
    viewer: str | None = None
    model_hint: str | None = None
    provider_hint: str | None = None
    tags: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    instructions: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    budget: BudgetConfig = BudgetConfig()
    prune: PruneConfig = PruneConfig()
    history: HistoryConfig = HistoryConfig()
    curation: CurationConfig = CurationConfig()
    selector: SelectorConfig = SelectorConfig()
    planner: PlannerConfig = PlannerConfig()
    summary: SummaryConfig = SummaryConfig()
    consolidation: ConsolidationConfig = ConsolidationConfig()
    redaction: RedactionConfig = RedactionConfig()
    evidence: EvidenceConfig = EvidenceConfig()
    observability: ObservabilityConfig = ObservabilityConfig()
    chunks: ChunkConfig = ChunkConfig()
    limits: LimitsConfig = LimitsConfig()
    locks: LockConfig = LockConfig()
    package: PackageConfig = PackageConfig()
    layers: LayersConfig = LayersConfig()
    experiments: Mapping[str, Mapping[str, ArmConfig]] = field(default_factory=dict)


def without_secrets(config: RuntimeConfig) -> RuntimeConfig:
    """Return a configuration as it may be kept and compared: without the keys of its models and what is secret in addresses."""
    bare: dict[str, Any] = {
        each.name: replace(section, api_key=None, api_base=section.api_base and shown_address(section.api_base))
        for each in fields(config)
        if hasattr(section := getattr(config, each.name), "api_key")
    }
    bare["experiments"] = {
        name: {arm: replace(settings, config=plain_without_secrets(settings.config)) for arm, settings in arms.items()}
        for name, arms in config.experiments.items()
    }
    return replace(config, **bare)


def plain_without_secrets(plain: Any) -> Any:
    """Return settings as plain values (nested as sections are) without keys of models and what is secret in addresses."""
    if isinstance(plain, Mapping):
        kept = {name: plain_without_secrets(value) for name, value in plain.items() if name != API_KEY}
        address = kept.get(API_BASE)
        return {**kept, API_BASE: shown_address(address)} if isinstance(address, str) else kept
    return [plain_without_secrets(value) for value in plain] if isinstance(plain, list | tuple) else plain
