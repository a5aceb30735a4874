"""Defines the settings of a prompt's contents: budget, history, selection, planning, layers and world info.

A section with a value outside of its bounds raises ConfigError, which names all wrong fields of the section.
"""

from __future__ import annotations

from collections.abc import Mapping

from jacquard.config.fields import (
    ANY,
    LOWER,
    Credential,
    bounded_field,
    check,
    choice_field,
    choices_field,
    credential_field,
    numbers_field,
    plain_field,
)
from jacquard.core.blocks import Sensitivity
from jacquard.core.errors import ConfigError
from mnemosyne.schema.evidence import Priority
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetConfig:
    """Token limits of a prompt.

    Raises ConfigError if the tokens that are reserved for the reply and for tails (tool calls and results) leave no
    tokens for the prompt.
    """

    max_input_tokens: int = bounded_field(
        8192, 1, doc="Input limit of the main model, in tokens, including the reserved tokens.", call=2_000_000
    )
    reserved_reply_tokens: int = bounded_field(
        1024, 0, doc="Tokens of the limit that are reserved for the reply.", call=ANY
    )
    reserved_tail_tokens: int = bounded_field(
        0,
        0,
        doc="Tokens of the limit that are reserved for the tool calls and results of a tool loop (`assemble`).",
        call=ANY,
    )
    tier_tokens: Mapping[str, int] = numbers_field(
        Priority,
        0,
        doc="Maximum tokens of all blocks of a priority; without a limit they may take all that is left.",
        call=ANY,
    )
    state_share: float = bounded_field(
        0.75,
        0,
        1,
        doc="The largest share of a prompt that the state (status and active quests) may take before it is shortened.",
        call=ANY,
    )

    def __post_init__(self) -> None:
        check(self)
        kept_free = self.reserved_reply_tokens + self.reserved_tail_tokens
        if kept_free >= self.max_input_tokens:
            raise ConfigError(
                f"BudgetConfig: max_input_tokens {self.max_input_tokens} leaves nothing for the prompt, as "
                f"{self.reserved_reply_tokens} are kept free for the reply and {self.reserved_tail_tokens} for tails"
            )

    def prompt_tokens(self, correction: float = 1.0) -> int:
        """Return the prompt's limit in tokens as our estimator counts them.

        `correction` is the provider's count of a text divided by ours.
        """
        return int((self.max_input_tokens - self.reserved_reply_tokens - self.reserved_tail_tokens) / correction)


@dataclass(frozen=True, kw_only=True, slots=True)
class PruneConfig:
    """Settings for dropping and shortening blocks if a prompt exceeds its budget. Blocks of priority `must` are never dropped."""

    policy: str = credential_field(
        "greedy_priority",
        Credential.ARGUMENT,
        doc="Name of the pruner: `greedy_priority`, `group_aware`, `degrade_to_summary`, one that the host registered, or that of "
        "a plugin.",
    )
    must_keep_priorities: tuple[str, ...] = choices_field(
        ("must",), *Priority, doc="Priorities whose blocks are never dropped; `must` is always one of them.", call=ANY
    )
    ttl_seconds: Mapping[str, float] = numbers_field(
        Priority, 0, doc="Maximum age of a block, in seconds, by priority; older blocks are dropped.", call=LOWER
    )
    max_sensitivity: str = choice_field(
        "secret",
        *Sensitivity,
        doc="Highest sensitivity of texts in a prompt; more sensitive ones are withheld or dropped.",
        call=LOWER,
    )
    mask: bool = plain_field(
        True, doc="Whether `[withheld]` replaces a text that is too sensitive; otherwise it is dropped.", call=LOWER
    )
    shorten_to: float = bounded_field(0.25, 0, 1, doc="Share of a text that remains when it is shortened.", call=ANY)
    shorten_least_tokens: int = bounded_field(24, 1, doc="Minimum tokens of a shortened text.", call=ANY)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryConfig:
    """Settings of the history window: the messages of the conversation in a prompt. The window grows until it reaches a
    limit, is then cut to the share `low_water` of both limits, and grows again.
    """

    max_messages: int | None = bounded_field(
        None,
        0,
        doc="Maximum messages of the conversation in a prompt; none means as many as fit, at most 400.",
        call=2_000,
    )
    max_tokens: int | None = bounded_field(
        None,
        0,
        doc="Maximum tokens of the conversation in a prompt; none means all that the other blocks and the memories leave.",
        call=200_000,
    )
    low_water: float = bounded_field(
        0.6, 0, 1, doc="Share of both limits that remains when the window is cut.", call=ANY
    )
    shown_turns: int = bounded_field(
        0,
        0,
        doc="Number of newest turns that the model sees without this prompt; recall leaves them out.",
        call=ANY,
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class CurationConfig:
    """Settings of Stream B (the memories of a prompt): recall, selection, and the time that a turn waits for them.

    A lease lets one choice of a selector serve later turns without a model call. The lease ends when an entry outside of
    the choice scores more than `lease_margin` times the best chosen entry.
    """

    enabled: bool = plain_field(True, doc="Whether memories are recalled at all.", call=LOWER)
    recall_limit: int = bounded_field(
        50, 1, 1000, doc="Maximum candidates that recall gives to the selector.", call=200
    )
    select_limit: int = bounded_field(6, 0, 50, doc="Maximum memories that the selector may choose.", call=ANY)
    fallback_limit: int = bounded_field(
        6,
        0,
        50,
        doc="Maximum memories that the heuristic chooses if there is no selector, or it fails or is late.",
        call=ANY,
    )
    flesh_tokens: int = bounded_field(
        1000,
        1,
        doc="Maximum tokens that the chosen memories may take together; the best is always shown. An overview may take four times "
        "as many.",
        call=ANY,
    )
    relevance_floor: float = bounded_field(
        0.5,
        0,
        1,
        doc="Minimum probability of relevance (0 to 1, estimated by rules) of a memory that the heuristic chooses; an input that "
        "asks nothing needs 1.3 times as much. 0 takes the best, even if they are not relevant.",
        call=ANY,
    )
    relevance_floor_past: float = bounded_field(
        0.4,
        0,
        1,
        doc="Value of `relevance_floor` for inputs about the past, in which a player or user asks for memories; the best of recall "
        "needs half of it.",
        call=ANY,
    )
    deadline_ms: int = bounded_field(1500, 0, doc="Maximum wait of a turn for Stream B, in milliseconds.", call=LOWER)
    selector_timeout_ms: int | None = bounded_field(
        None,
        0,
        doc="Time limit of the selector, after which the heuristic chooses, in milliseconds; none means `deadline_ms`.",
    )
    background_seconds: float = bounded_field(
        30.0,
        0,
        doc="Time after the deadline for which a selection may continue for the next turn, in seconds.",
        call=LOWER,
    )
    max_entry_tokens: int = bounded_field(
        600,
        1,
        doc="Maximum tokens of a memory that is shown as a whole; of a longer one, only the first sentences are shown.",
        call=ANY,
    )
    dates: str = choice_field(
        "auto",
        "auto",
        "always",
        "never",
        doc="Whether recalled messages show the dates that their words mean (`yesterday`), counted from the day of the message; "
        "`auto` shows them in sessions without a world pack.",
        call=ANY,
    )
    lease_turns: int = bounded_field(
        0, 0, 50, doc="Number of later turns that a selector's choice may serve; 0 turns the lease off.", call=ANY
    )
    lease_margin: float = bounded_field(
        1.25, 1, doc="A lease ends when an entry outside it scores more than this many times its best entry.", call=ANY
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectorConfig:
    """Settings of the selector, which chooses memories: a small model, a local reranker, or a plugin. If none is named,
    rules choose (the heuristic).

    After `failure_limit` failures in a row the selector is not called for `reset_seconds` (the circuit breaker). Raises
    ConfigError if both a model and a reranker are named, or if `name` contradicts them.
    """

    name: str | None = credential_field(
        None,
        Credential.ARGUMENT,
        doc="Name of the selector: `flash` (a small model), `rerank` (a local reranker), `heuristic`, or that of a plugin; none "
        "means the one that `model` or `reranker` names.",
    )
    model: str | None = plain_field(None, doc="Name of the small model that selects, as litellm names it.")
    api_base: str | None = credential_field(
        None, Credential.ADDRESS, doc="Address of the server that has the model; none means the provider's own."
    )
    api_key: str | None = credential_field(
        None, Credential.KEY, doc="Key for the model; it is neither stored nor shown."
    )
    reranker: str | None = plain_field(None, doc="Folder of a local cross-encoder that selects instead of a model.")
    max_tokens: int = bounded_field(400, 1, doc="Maximum tokens of the model's answer.")
    rationale: bool = plain_field(
        True,
        doc="Whether the model is asked for one sentence that states why, which the prompt shows before the memories.",
    )
    failure_limit: int = bounded_field(
        3, 1, doc="Failures in a row after which the selector is not called for a while."
    )
    reset_seconds: float = bounded_field(
        30.0, 0, doc="Time for which the selector is not called after `failure_limit` failures, in seconds."
    )

    def __post_init__(self) -> None:
        check(self)
        if self.model is not None and self.reranker is not None:
            raise ConfigError("SelectorConfig: name a model or a reranker; only one of them can select")
        if self.name == "rerank" and self.reranker is None:
            raise ConfigError("SelectorConfig: name is rerank, which needs a reranker (its folder)")
        if self.reranker is not None and self.name not in (None, "rerank"):
            raise ConfigError(
                f"SelectorConfig: name is {self.name}, so the reranker would not be used; name only one of them"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannerConfig:
    """Settings of the planner. Tier 0 (rules, or a plugin) plans every turn. If tier 0 is not confident, tier 1 calls a
    small model once.
    """

    name: str = credential_field(
        "rules", Credential.ARGUMENT, doc="Name of the planner of tier 0: `rules`, or that of a plugin."
    )
    model: str | None = plain_field(
        None, doc="Name of the small model that plans, as litellm names it; without one, only the rules plan."
    )
    api_base: str | None = credential_field(
        None, Credential.ADDRESS, doc="Address of the server that has the model; none means the provider's own."
    )
    api_key: str | None = credential_field(
        None, Credential.KEY, doc="Key for the model; it is neither stored nor shown."
    )
    max_tokens: int = bounded_field(300, 1, doc="Maximum tokens of the model's answer.")
    timeout_ms: int = bounded_field(500, 1, doc="Maximum wait of a turn for the model, in milliseconds.")
    confidence_threshold: float | None = bounded_field(
        None,
        0,
        1,
        doc="The model is called when the rules are less confident than this; none means the world's value (0.6).",
    )
    focus: str | None = plain_field(
        None, doc="Id of a quest that stays in focus; neither the rules nor the model change it then.", call=ANY
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageConfig:
    """Limits of a turn's ContextPackage (the context of the turn as an object). The prompt itself is limited by `budget`."""

    by_document: int = bounded_field(3, 1, doc="Maximum evidence items from one document or turn.", call=ANY)
    by_source: int = bounded_field(10, 1, doc="Maximum evidence items from one chain.", call=ANY)
    recent_turns_max: int = bounded_field(
        20, 0, doc="Maximum number of recent turns; a turn reaches from one message of the user to the next.", call=ANY
    )
    snippets_max_chars: int = bounded_field(800, 1, doc="Maximum characters of the text of one item.", call=ANY)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class LayersConfig:
    """Settings of the layers of context that a model call gets, for agents that work together."""

    process: str = choice_field(
        "sequential",
        "sequential",
        "dynamic",
        "hierarchical",
        "react",
        "mapreduce_worker",
        "mapreduce_planner",
        "mapreduce_reducer",
        doc="Role of this agent in a process of several agents.",
        call=ANY,
    )
    enable_share_context: bool | None = plain_field(
        None, doc="Whether the call gets the blocks shared by agents; none means that `process` decides.", call=ANY
    )
    agent: str = plain_field(
        "",
        doc="Name of the agent that answers. Its own messages are shown without its name, those of other agents with theirs; "
        "empty: no name.",
        call=ANY,
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldInfoConfig:
    """Settings of world info by the rules of SillyTavern (`activation: sillytavern`). All defaults but that of
    `context_tokens` are SillyTavern's own.
    """

    scan_depth: int = bounded_field(
        2, 0, 1000, doc="Number of newest messages, including the input, that are searched for keys.", call=ANY
    )
    context_tokens: int = bounded_field(
        0, 0, doc="Tokens of which `budget_percent` is taken; 0 means the prompt limit.", call=ANY
    )
    budget_percent: int = bounded_field(
        25, 1, 100, doc="Share of `context_tokens` that the entries may take, in percent.", call=ANY
    )
    budget_cap: int = bounded_field(
        0, 0, doc="Maximum tokens that the entries may take; 0 means no other limit.", call=ANY
    )
    include_names: bool = plain_field(True, doc="Whether speakers' names are searched with their messages.", call=ANY)
    recursive: bool = plain_field(True, doc="Whether the text of an entry can activate other entries.", call=ANY)
    case_sensitive: bool = plain_field(False, doc="Whether upper and lower case of keys must match.", call=ANY)
    match_whole_words: bool = plain_field(
        True,
        doc="Whether keys of one word match only whole words; Chinese keys match in any text.",
        call=ANY,
    )
    use_group_scoring: bool = plain_field(
        False, doc="Whether the entries of a group with the most keys in the text take precedence.", call=ANY
    )
    min_activations: int = bounded_field(
        0, 0, doc="Older messages are searched until this many entries are activated; 0 turns that off.", call=ANY
    )
    min_activations_depth_max: int = bounded_field(
        0,
        0,
        1000,
        doc="Maximum messages that `min_activations` may search; 0 means all messages in the prompt.",
        call=ANY,
    )
    max_recursion_steps: int = bounded_field(
        0, 0, doc="Maximum passes over the entries, including the first; 0 means no limit.", call=ANY
    )
    insertion_strategy: str = choice_field(
        "character_first",
        "evenly",
        "character_first",
        "global_first",
        doc="Whether the entries of the character's books go before those of other books, after them, or only by their order.",
        call=ANY,
    )

    def __post_init__(self) -> None:
        check(self)
