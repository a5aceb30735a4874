"""Receipt of a prompt: the decision about every block and candidate, recorded when it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jacquard.core.blocks import Block, BlockKind
from jacquard.core.degradations import Degradation
from mnemosyne.core.codec import Struct
from mnemosyne.schema.ingest import ConflictRecord
from mnemosyne.schema.memory import Trust
from mnemosyne.schema.query import Signals
from mnemosyne.schema.redaction import RedactionRecord


class Action(StrEnum):
    """Treatment of a block."""

    KEPT = "kept"
    DROPPED = "dropped"
    DEGRADED = "degraded"


class CurationPath(StrEnum):
    """Path that Stream B took.

    SELECTED: the selector answered (an empty selection counts). HEURISTIC: the heuristic chose, because no model is configured
    or the input asks for an overview. FALLBACK: the heuristic chose because the selector failed. TIMEOUT: the deadline passed,
    so the prompt has no memories. SKIPPED: not started. PREFETCHED: an earlier selection that came late was used. LEASED: an
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
"""Paths on which the selector chose, for this turn or for an earlier one."""

BY_HEURISTIC = frozenset({CurationPath.HEURISTIC, CurationPath.FALLBACK})
"""Paths on which the heuristic chose."""


NOT_ADDED, SHOWN_BY_CLIENT = "not_added", "shown_by_client"
"""Codes of blocks that the proxy leaves out of a client's call: the client sends its own, or its messages contain the text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockDecision:
    """Decision about one block."""

    block_id: str
    """Unique in the prompt."""
    action: Action
    code: str
    """Reason for machines."""
    reason: str
    """Reason for people."""
    tokens: int
    """Tokens of the block's content."""
    source: str = ""
    title: str = ""
    trust: Trust = Trust.AUTHORED
    kind: BlockKind = BlockKind.NONE
    """States what the block's id refers to."""


def decide_block(
    block: Block, action: Action, code: str, reason: str, tokens: int | None = None, title: str | None = None
) -> BlockDecision:
    """Return the decision about a block; `tokens` and `title` default to the block's."""
    return BlockDecision(
        block_id=block.block_id,
        action=action,
        code=code,
        reason=reason,
        tokens=block.tokens if tokens is None else tokens,
        source=block.origin.source,
        title=block.origin.title if title is None else title,
        trust=block.origin.trust,
        kind=block.kind,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class CandidateDecision:
    """Decision about one candidate.

    Codes: `selected`, `not_selected`, `folded` (near-duplicate of a better candidate), `below_cut`, `below_floor` (not relevant
    enough), `turn_full` (two memories of its turn are chosen), `unanswered` (a question without anything else of its turn),
    `over_tokens` (chosen, but the memories have enough tokens without it), `not_asked` (the stream was late, or a lease
    applied).
    """

    entry_id: str
    """Id of the entry, or its address if a better candidate has the same id."""
    chain: str
    kind: str
    title: str
    rank: int
    """Place in recall (1 = best)."""
    score: float
    signals: Signals
    chosen: bool
    code: str
    reason: str
    preview: str = ""
    turn_id: str | None = None
    trust: Trust = Trust.AUTHORED
    uri: str = ""
    """Address of the entry."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ActivationDecision:
    """Decision of the world info rules about an activated entry; entries without a key in the text have none.

    Codes of shown entries (`chosen`): `constant`, `key`, `sticky`, `decorator`, `vector`. Codes of others: `group`,
    `probability`, `budget`, `cooldown`, `delay`, `filter`, `trigger` (rejected by the rules), `outlet` (our prompts have no
    place for it), `empty` (no text), `unreadable` (fields with invalid values; it is recalled by relevance instead).
    """

    entry_id: str
    """Id of the lore entry."""
    title: str
    world: str
    """Name of its book."""
    uid: str
    """Id in its book."""
    chosen: bool
    code: str
    reason: str
    key: str = ""
    """Key that was found."""
    woken_by: str = ""
    """Id of the lore entry whose text contains the key ('': the conversation or a field)."""
    pass_number: int = 0
    """Counts from 1."""
    position: str = ""
    """Name of its place."""
    trust: Trust = Trust.AUTHORED
    uri: str = ""
    """Address of the lore entry."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """Something that the prompt does not contain and that was never a block."""

    what: str
    """`evidence`, `turns`, `message`, `summary` (its lines) or `context_block`."""
    code: str
    """Reason for machines."""
    reason: str
    """Reason for people."""
    first: str = ""
    """First one left out, if they are in order."""
    last: str = ""
    """Last one left out, if they are in order."""
    count: int = 0
    """Number of things left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamBReport:
    """Stream B's part of the receipt."""

    path: CurationPath
    reason: str
    """A sentence."""
    code: str = ""
    model: str | None = None
    candidates: tuple[CandidateDecision, ...] = ()
    selected: tuple[str, ...] = ()
    """Entry ids of the chosen candidates, best first."""
    queries: tuple[str, ...] = ()
    rationale: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts of the selector's answer (`unknown_ids`, `duplicates`, `over_limit`, …) and its tokens, if known."""
    prefetch_refused: str = ""
    """Reason why a late selection was not used ('': it was used, or there was none)."""
    lease_refused: str = ""
    """Reason why an earlier selection was not used again ('': it was used, or there was none)."""
    chosen_for: str = ""
    """Turn whose selection was used ('': this one)."""
    relevance_floor: float | None = None
    """Minimum probability of relevance of a choice, 0..1 (None: the selector has none)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetReport:
    """Tokens of a prompt, by our own count."""

    limit_tokens: int
    """Maximum tokens: input limit minus the reply reserve."""
    used_tokens: int
    """Tokens of the prompt."""
    counter: str
    correction: float = 1.0
    """Factor from our count to the provider's; the limit is divided by it."""
    tail_tokens: int = 0
    """Tokens reserved for a tool loop, in addition to the limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefixReport:
    """Prefix that the prompt shares with the previous turn's prompt."""

    shared_tokens: int
    """Tokens from the first character to the first difference."""
    total_tokens: int
    first_break: str | None
    """Id of the block with the first difference (None: no difference, or no previous prompt)."""
    stable_messages: int = 0
    """Number of leading messages without content that changes every turn."""
    stable_chars: int = 0
    """Characters of the next message before its first block that changes every turn."""


class BlockSpan(Struct, frozen=True, kw_only=True):
    """Place of a block in the prompt: characters `start`..`end` (0-based, half-open) of message `message` (0-based)."""

    block_id: str
    message: int
    start: int
    end: int
    tokens: int
    kind: BlockKind = BlockKind.NONE


@dataclass(frozen=True, kw_only=True, slots=True)
class CutPart:
    """Part of the state that is not shown completely: `shown` of `total` units."""

    path: str
    """JSON Pointer in the state, or `goal` for the goal of the turn."""
    unit: str
    """`characters`, `entries` or `fields`."""
    shown: int
    total: int
    chars: int
    """Size as JSON text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateCut:
    """Parts of the state that a prompt does not show; the rest is shown as stored."""

    limit_tokens: int
    """Tokens that were available."""
    before_tokens: int
    """Tokens of the whole state."""
    after_tokens: int
    """Tokens of the state as shown."""
    parts: tuple[CutPart, ...]
    is_estimated: bool = False
    """True if `before_tokens` is an estimate, because the state is too large to be counted."""

    @property
    def biggest(self) -> CutPart:
        """Largest part that is not shown completely."""
        return max(self.parts, key=lambda part: part.chars)


@dataclass(frozen=True, kw_only=True, slots=True)
class SentText:
    """One text of a call that went through the proxy to a model: the client's or ours."""

    message: int
    """Message of the call (0-based); the system text of Anthropic's API is the first. Ours may be part of a client's message.
    """
    role: str
    tokens: int
    digest: str = ""
    """Client's text: the first 16 hexadecimal digits of its SHA-256. In long calls one text represents all until the next."""
    text: str = ""
    """Our text; '' for the client's."""
    place: str = ""
    """Our text: `lasting`, `changing`, or `depth:N` for a note."""
    blocks: tuple[str, ...] = ()
    """Our text: ids of its blocks."""

    @property
    def is_ours(self) -> bool:
        """True if we added it."""
        return bool(self.place)


@dataclass(frozen=True, kw_only=True, slots=True)
class SentPrompt:
    """Messages of a call that went through the proxy to a model, in their order; tokens by our own count."""

    texts: tuple[SentText, ...]
    client_tokens: int
    our_tokens: int
    alignment: tuple[str, ...] = ()
    """One sentence for each decision made when the client's messages were compared with the session."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Complete receipt of one prepared turn."""

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
    """Tags of its configuration, including A/B arms."""
    state_cut: StateCut | None = None
    evidence: tuple[CandidateDecision, ...] = ()
    """Decision about each tool or search result that could have been shown, best first."""
    left_out: tuple[LeftOut, ...] = ()
    """Other content that is not in the prompt and was never a block."""
    redactions: tuple[RedactionRecord, ...] = ()
    """Redactions in the prompt by class, place and number, made before storing or by a mask of this turn."""
    profile: str = ""
    """Kind of agent that the prompt is for."""
    as_written: bool = False
    """True if messages are shown as they were written, not escaped."""
    activation: tuple[ActivationDecision, ...] = ()
    """Decision about each world info entry activated by the rules of SillyTavern, shown ones first."""
    sent: SentPrompt | None = None
    """Text sent to the model if a chat client wrote the prompt (first call of the turn, if the model calls tools)."""
