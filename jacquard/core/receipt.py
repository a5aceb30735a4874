"""The receipt: what was decided about every block and candidate of a prompt, written when the decision is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jacquard.core.blocks import BlockKind, PromptBlock
from jacquard.core.degradations import Degradation
from mnemosyne.schema.ingest import ConflictRecord
from mnemosyne.schema.memory import Trust
from mnemosyne.schema.query import Signals
from mnemosyne.schema.redaction import RedactionRecord


class Action(StrEnum):
    """What was done with a block."""

    KEPT = "kept"
    DROPPED = "dropped"
    DEGRADED = "degraded"


class CurationPath(StrEnum):
    """The path that Stream B took.

    SELECTED: the selector answered (an empty selection counts). HEURISTIC: the heuristic chose, for no model is configured to, or
    for an overview.
    FALLBACK: the heuristic chose because the selector did not. TIMEOUT: the deadline
    passed, and the skeleton stands alone. SKIPPED: not started. PREFETCHED: an earlier late result was used. LEASED: an
    earlier selection was used again because the scene is the same; no model was called.
    """

    SELECTED = "selected"
    HEURISTIC = "heuristic"
    FALLBACK = "fallback"
    TIMEOUT = "timeout"
    SKIPPED = "skipped"
    PREFETCHED = "prefetched"
    LEASED = "leased"


BY_SELECTOR = frozenset({CurationPath.SELECTED, CurationPath.PREFETCHED, CurationPath.LEASED})
"""The paths on which the selector chose, for this turn or for an earlier one."""

BY_HEURISTIC = frozenset({CurationPath.HEURISTIC, CurationPath.FALLBACK})
"""The paths on which the heuristic chose."""


NOT_ADDED, SHOWN_BY_CLIENT = "not_added", "shown_by_client"
"""Codes of blocks that the proxy leaves out of a client's call: the client has its own, or its messages show the text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockDecision:
    """One decision about one block: `code` is for machines, `reason` for people; `tokens` counts its content.

    `block_id` is unique in the prompt; `kind` says to what it refers.
    """

    block_id: str
    action: Action
    code: str
    reason: str
    tokens: int
    source: str = ""
    title: str = ""
    trust: Trust = Trust.AUTHORED
    kind: BlockKind = BlockKind.UNKNOWN


def decide_block(
    block: PromptBlock, action: Action, code: str, reason: str, tokens: int | None = None, title: str | None = None
) -> BlockDecision:
    """Return the decision about a block; `tokens` and `title` are its own unless given."""
    return BlockDecision(
        block_id=block.block_id,
        action=action,
        code=code,
        reason=reason,
        tokens=block.tokens if tokens is None else tokens,
        source=block.source,
        title=block.title if title is None else title,
        trust=block.trust,
        kind=block.kind,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class CandidateDecision:
    """What was decided about one candidate; `rank` is its place in recall (1 = best).

    Codes: `selected`, `not_selected`, `folded` (near-duplicate of a better candidate), `below_cut`, `below_floor` (not
    relevant enough), `turn_full` (two memories of its turn are chosen), `unanswered` (a question, and nothing else of its turn
    was recalled), `over_tokens` (chosen, but the memories take enough tokens without it), `not_asked` (the stream was late, or
    a lease applied). `entry_id` is the id of its entry, or its address where a better candidate has the same id. `uri` is the
    address of its entry.
    """

    entry_id: str
    chain: str
    kind: str
    title: str
    rank: int
    score: float
    signals: Signals
    chosen: bool
    code: str
    reason: str
    preview: str = ""
    turn_id: str | None = None
    trust: Trust = Trust.AUTHORED
    uri: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ActivationDecision:
    """What the rules of world info decided about an entry that was set off; entries without a key in the text have none.

    `entry_id`, `title` and `uri` are those of the entry of lore, `world` and `uid` those of the entry in its book. Codes of
    entries that are shown (`chosen`): `constant`, `key`, `sticky`, `decorator`, `vector`. Of others: `group`, `probability`,
    `budget`, `cooldown`, `delay`, `filter`, `trigger` (the rules rejected it), `outlet` (its text has no place in our prompts),
    `empty` (it has no text), `unreadable` (its fields have values that they cannot have, so it is recalled by relevance). `key` is
    the key that was found, `woken_by` the id of the entry of lore in whose text that was (empty: in the conversation or a field),
    `pass_number` counts from 1. `position` is the name of its place.
    """

    entry_id: str
    title: str
    world: str
    uid: str
    chosen: bool
    code: str
    reason: str
    key: str = ""
    woken_by: str = ""
    pass_number: int = 0
    position: str = ""
    trust: Trust = Trust.AUTHORED
    uri: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """Something that is not in a prompt and was not a block of it: `count` of a kind (`what`), from `first` to `last` if they are
    in order.

    Codes are for machines, `reason` for people. `what`: `evidence`, `turns`, `message`, `summary` (its lines), `context_block`.
    """

    what: str
    code: str
    reason: str
    first: str = ""
    last: str = ""
    count: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamBReport:
    """Stream B's part of the receipt; `selected` are the candidates' `entry_id`, best first, and `reason` is a
    sentence.

    `counts`: what the selector's answer held (`unknown_ids`, `duplicates`, `over_limit`, …) and its tokens, where
    known. `prefetch_refused`: why an available late result was not used for this turn ("" = it was used, or there was
    none); `lease_refused`: the same for a lease. `chosen_for`: the turn whose selection this turn used ("" = its own).
    `relevance_floor`: how likely relevant (0..1) a choice had to be (None: the selector has no floor).
    """

    path: CurationPath
    reason: str
    code: str = ""
    model: str | None = None
    candidates: tuple[CandidateDecision, ...] = ()
    selected: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    rationale: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    prefetch_refused: str = ""
    lease_refused: str = ""
    chosen_for: str = ""
    relevance_floor: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetReport:
    """Tokens of a prompt: `limit_tokens` is what it may take (input limit less reply reserve), `used_tokens` what it
    takes.

    Both are our own counts. `correction` is the factor from our count to the provider's; the limit is divided by it.
    `tail_tokens` are kept free beside the limit for a tool loop.
    """

    limit_tokens: int
    used_tokens: int
    counter: str
    correction: float = 1.0
    tail_tokens: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefixReport:
    """Tokens shared with the previous turn's prompt, from its first character on; `first_break` is the id of the block
    where they differ first (None: nowhere, or there is no previous prompt). `stable_messages` are the messages, from the first
    on, that hold nothing that changes in each turn, and `stable_chars` the characters of the next one before the first such
    block.
    """

    shared_tokens: int
    total_tokens: int
    first_break: str | None
    stable_messages: int = 0
    stable_chars: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockSpan:
    """Where a block stands: characters `start`..`end` (0-based, half-open) of message `message` (0-based) of the
    prompt.

    `kind` is that of the block; the frame between blocks has none.
    """

    block_id: str
    message: int
    start: int
    end: int
    tokens: int
    kind: BlockKind = BlockKind.UNKNOWN


@dataclass(frozen=True, kw_only=True, slots=True)
class CutPart:
    """One part of the state that is not shown whole: `shown` of `total` of its `unit` (`characters`, `entries`,
    `fields`).

    `path` is its JSON Pointer in the state, or `goal` for the goal of the turn; `chars` is its size as JSON text.
    """

    path: str
    unit: str
    shown: int
    total: int
    chars: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StateCut:
    """What a prompt leaves out of the state; everything that `parts` does not name is shown as stored.

    The whole state would take `before_tokens` (`is_estimated`: it is too large to be counted) and takes `after_tokens`
    as shown; `limit_tokens` of the prompt were available.
    """

    limit_tokens: int
    before_tokens: int
    after_tokens: int
    parts: tuple[CutPart, ...]
    is_estimated: bool = False

    @property
    def biggest(self) -> CutPart:
        """The largest part that is not shown whole."""
        return max(self.parts, key=lambda part: part.chars)


@dataclass(frozen=True, kw_only=True, slots=True)
class SentText:
    """One text of a call that went to a model through the proxy: the client's own, or ours.

    `message` (0-based) counts the messages of the call, with the system text of Anthropic's API as the first; our text may be a
    part of a client's message. The client's own has a `digest` (the first 16 hexadecimal digits of its SHA-256) in place of its
    words; one of a long call stands for all messages before the next text. Ours has its words (`text`), the ids of its `blocks`,
    and `place`: `lasting`, `changing`, or `depth:N` for a note.
    """

    message: int
    role: str
    tokens: int
    digest: str = ""
    text: str = ""
    place: str = ""
    blocks: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether we added it."""
        return bool(self.place)


@dataclass(frozen=True, kw_only=True, slots=True)
class SentPrompt:
    """The messages of a call that went to a model through the proxy, in their order; tokens are our own count.

    `alignment` has a sentence on each thing that was decided when the client's messages were compared with the session.
    """

    texts: tuple[SentText, ...]
    client_tokens: int
    our_tokens: int
    alignment: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The whole receipt of one prepared turn; `tags` are those of its configuration (A/B arms among them).

    `evidence` has a decision for each result of a tool or search that might have been shown, best first. `redactions` says what
    is redacted in the prompt: class, place and number, before a text was stored or by a mask of this turn. `left_out` says what
    else is not in the prompt and was no block of it. `profile` is the kind of agent that the prompt is for; `as_written` says that
    its messages are shown as they were written, not escaped. `activation` has a decision for each entry of world info that was set
    off by the rules of SillyTavern, those that are shown first. `sent` is what went to the model, where that is a chat client's own
    prompt with our text in it (the first call of the turn, if the model calls tools).
    """

    turn_id: str
    session_id: str
    layout: str
    template_id: str
    stream_b: StreamBReport
    decisions: tuple[BlockDecision, ...]
    budget: BudgetReport
    prefix: PrefixReport
    spans: tuple[BlockSpan, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    degradations: tuple[Degradation, ...] = ()
    conflicts: tuple[ConflictRecord, ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)
    new_evidence_ids: tuple[str, ...] = ()
    new_block_ids: tuple[str, ...] = ()
    errors: list[str] = field(default_factory=list)
    tags: Mapping[str, str] = field(default_factory=dict)
    state_cut: StateCut | None = None
    evidence: tuple[CandidateDecision, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    redactions: tuple[RedactionRecord, ...] = ()
    profile: str = ""
    as_written: bool = False
    activation: tuple[ActivationDecision, ...] = ()
    sent: SentPrompt | None = None
