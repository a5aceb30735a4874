"""Defines the receipt of a prompt: the decision about every block and every recalled memory, with the reason.

A decision is recorded when it is made. `Report` is the whole receipt of one turn; the other classes are its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from jacquard.core.blocks import Block, BlockKind
from jacquard.core.degradations import Degradation
from mnemosyne.core.codec import Struct
from mnemosyne.schema.ingest import ConflictRecord
from mnemosyne.schema.memory import Trust
from mnemosyne.schema.query import Signals
from mnemosyne.schema.redaction import RedactionRecord
from mnemosyne.values import also_named, dataclass


class Action(StrEnum):
    """Treatment of a block."""

    KEPT = "kept"
    DROPPED = "dropped"
    DEGRADED = "degraded"


class CurationPath(StrEnum):
    """Way in which Stream B (recall and selection of memories) got the memories of a turn.

    - SELECTED: the selector answered for this turn, perhaps with an empty selection.
    - HEURISTIC: rules chose, because no model is configured or because the input asks for an overview.
    - FALLBACK: rules chose, because the selector failed.
    - TIMEOUT: the deadline passed, so the prompt has no memories.
    - SKIPPED: Stream B was not started.
    - PREFETCHED: a selection that came too late for an earlier turn was used for this turn.
    - LEASED: the selection of an earlier turn was used again without a model call, because the scene is the same.
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
"""Paths on which rules chose, without a model."""


NOT_ADDED, SHOWN_BY_CLIENT = "not_added", "shown_by_client"
"""Codes of blocks that the proxy does not add to a client's call. NOT_ADDED: the client sends a text of this sort
itself. SHOWN_BY_CLIENT: the client's messages contain the text already.
"""


@also_named(token_estimate="tokens")
@dataclass(frozen=True, kw_only=True, slots=True)
class BlockDecision:
    """Decision about one block."""

    block_id: str
    """Unique in the prompt."""
    action: Action
    code: str = ""
    """Code of the reason, for machines. A pruner may leave it empty; the engine fills it in from the action."""
    reason: str
    """Sentence that states the reason, for people."""
    tokens: int
    """Tokens of the block as it was decided."""
    source: str = ""
    title: str = ""
    trust: Trust = Trust.AUTHORED
    kind: BlockKind = BlockKind.NONE
    """States what the block's id refers to."""

    @property
    def token_estimate(self) -> int:
        """Tokens of the block as it was decided: `tokens`."""
        return self.tokens


PruneDecision = BlockDecision
"""Name of `BlockDecision` in the SDK's design."""


def decide_block(
    block: Block, action: Action, code: str, reason: str, tokens: int | None = None, title: str | None = None
) -> BlockDecision:
    """Return the decision about a block. `tokens` and `title` default to the tokens and the title of the block."""
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
    """Decision about one candidate (a recalled memory).

    The code is one of:

    - `selected`, `not_selected`: the selector chose the candidate, or did not.
    - `folded`: the candidate is a near-duplicate of a better candidate.
    - `below_cut`: the score of the candidate is too low.
    - `below_floor`: the candidate is not relevant enough.
    - `turn_full`: two memories of the same past turn are chosen already.
    - `unanswered`: the candidate is a question, and nothing else of its turn was recalled.
    - `over_tokens`: the candidate was chosen, but does not fit the token limit of the memories together with better
      ones.
    - `not_asked`: no selector saw the candidate, because Stream B was late or an earlier selection was used again.
    """

    entry_id: str
    """Id of the memory entry, or its address if a better candidate has the same id."""
    chain: str
    kind: str
    title: str
    rank: int
    """Rank in recall (1 = best)."""
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
    """Decision of the world info rules about one lore entry. An entry whose keys do not occur in the text has no decision.

    World info is lore from a book of another program (SillyTavern). If `chosen` is true, the code is the cause of the
    activation: `constant`, `key`, `sticky`, `decorator` or `vector`. Otherwise the code is the reason why the entry is
    not shown:

    - `group`, `probability`, `budget`, `cooldown`, `delay`, `filter`, `trigger`: a rule of this name rejected the
      entry.
    - `outlet`: our prompts have no place for the entry.
    - `empty`: the entry has no text.
    - `unreadable`: the fields of the entry have invalid values. The entry is recalled by relevance instead.
    """

    entry_id: str
    """Id of the lore entry."""
    title: str
    world: str
    """Name of the entry's book."""
    uid: str
    """Id of the entry in its book."""
    chosen: bool
    code: str
    reason: str
    key: str = ""
    """Keyword that was found."""
    woken_by: str = ""
    """Id of the lore entry whose text contains the key ('': the conversation or a field contains it)."""
    pass_number: int = 0
    """Number of the search pass that found the key, counted from 1."""
    position: str = ""
    """Name of the entry's place in the prompt."""
    trust: Trust = Trust.AUTHORED
    uri: str = ""
    """Address of the lore entry."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """Something that the prompt does not contain and that was never a block."""

    what: str
    """`evidence`, `turns`, `message`, `summary` (its lines), `fact` or `context_block`."""
    code: str
    """Code of the reason, for machines."""
    reason: str
    """Sentence that states the reason, for people."""
    first: str = ""
    """Id of the first item left out ('': the items have no order)."""
    last: str = ""
    """Id of the last item left out ('': the items have no order)."""
    count: int = 0
    """Number of items left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamBReport:
    """Part of the receipt about Stream B (recall and selection of memories)."""

    path: CurationPath
    reason: str
    """Sentence that explains `path`."""
    code: str = ""
    model: str | None = None
    candidates: tuple[CandidateDecision, ...] = ()
    selected: tuple[str, ...] = ()
    """Entry ids of the chosen candidates, best first."""
    queries: tuple[str, ...] = ()
    rationale: str = ""
    """Reason that the selector gave for its whole choice, as far as the prompt may show it ('': none)."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts of the selector's answer (`unknown_ids`, `duplicates`, `over_limit`, …) and its tokens, if known."""
    prefetch_refused: str = ""
    """Reason why a late selection of an earlier turn was not used ('': it was used, or there was none)."""
    lease_refused: str = ""
    """Reason why an earlier selection was not used again ('': it was used, or there was none)."""
    chosen_for: str = ""
    """Id of the turn for which the used selection was made ('': this turn)."""
    relevance_floor: float | None = None
    """Minimum probability of relevance, 0..1, of a chosen memory (None: the selector has no minimum)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetReport:
    """Tokens of a prompt, counted by our own counter."""

    limit_tokens: int
    """Maximum tokens of the prompt: the input limit of the model minus the tokens reserved for the reply."""
    used_tokens: int
    """Tokens of the prompt."""
    counter: str
    correction: float = 1.0
    """Provider's token count divided by our count. `limit_tokens` is the provider's limit divided by this number."""
    tail_tokens: int = 0
    """Tokens reserved for a tool loop, in addition to the limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefixReport:
    """Beginning that the prompt shares with the prompt of the previous turn. A provider can cache this part."""

    shared_tokens: int
    """Tokens from the first character to the first difference."""
    total_tokens: int
    first_break: str | None
    """Id of the block with the first difference (None: no difference, or no previous prompt)."""
    stable_messages: int = 0
    """Number of leading messages without content that changes every turn."""
    stable_chars: int = 0
    """Number of characters at the beginning of the message after the stable messages, before its first block that
    changes every turn.
    """


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
    """Part of the state that is not shown completely. Of its `total` units, `shown` units are shown."""

    path: str
    """JSON Pointer in the state, or `goal` for the goal of the turn."""
    unit: str
    """Unit of `shown` and `total`: `characters`, `entries` or `fields`."""
    shown: int
    total: int
    chars: int
    """Number of characters of the part as JSON text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateCut:
    """Parts of the state that a prompt does not show completely; all other parts are shown completely."""

    limit_tokens: int
    """Tokens that were available for the state."""
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


EDITED, PREPARED = "edited", "prepared"
"""Places of the messages of a prompt that a person edited before it was sent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SentText:
    """One text of a call that went through the proxy to a model, or of a prompt that was edited by hand. The client wrote the text,
    or we added it.
    """

    message: int
    """Index of the message in the call, counted from 0. The system text of Anthropic's API counts as the first message.
    A text that we added may be a part of a client's message.
    """
    role: str
    tokens: int
    digest: str = ""
    """For a client's text: the first 16 hexadecimal digits of its SHA-256. In a long call, one listed client's text may
    represent all client's texts up to the next listed text.
    """
    text: str = ""
    """For a text of ours: its content; '' for a client's text."""
    place: str = ""
    """For a text of ours: `lasting`, `changing`, or `depth:N` for a note. For a prompt that was edited by hand before it was sent:
    `edited` for a message that the edit changed, and `prepared` for the others. '' for a client's text.
    """
    blocks: tuple[str, ...] = ()
    """For a text of ours: ids of the blocks in it."""

    @property
    def is_ours(self) -> bool:
        """True if we added the text, false if the client wrote it."""
        return bool(self.place)


@dataclass(frozen=True, kw_only=True, slots=True)
class SentPrompt:
    """Texts of a call that went through the proxy to a model, in order. Tokens are counted by our own counter."""

    texts: tuple[SentText, ...]
    client_tokens: int
    our_tokens: int
    alignment: tuple[str, ...] = ()
    """One sentence for each decision made when the client's messages were compared with the session."""

    @property
    def is_edited(self) -> bool:
        """True if a person edited the prompt by hand before it was sent."""
        return any(each.place == EDITED for each in self.texts)


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
    """Tags of the turn's configuration, including the arms of A/B experiments."""
    state_cut: StateCut | None = None
    evidence: tuple[CandidateDecision, ...] = ()
    """Decision about each tool or search result that could have been shown, best first."""
    left_out: tuple[LeftOut, ...] = ()
    """Other content that is not in the prompt and was never a block."""
    redactions: tuple[RedactionRecord, ...] = ()
    """Redactions of texts in the prompt, whether made before the text was stored or in this turn."""
    profile: str = ""
    """Id of the profile: the kind of agent that the prompt is for."""
    as_written: bool = False
    """True if messages are shown as they were written, not escaped."""
    activation: tuple[ActivationDecision, ...] = ()
    """Decision about each world info entry activated by the rules of SillyTavern; shown entries come first."""
    sent: SentPrompt | None = None
    """Texts that were sent to the model through the proxy, or after an edit by hand (None: the model got the prompt
    unchanged). If the model calls tools, these are the texts of the turn's first call.
    """

    @property
    def prune_decisions(self) -> tuple[BlockDecision, ...]:
        """The decisions about blocks: `decisions`."""
        return self.decisions

    @property
    def token_budget(self) -> int:
        """Maximum tokens of the prompt: `budget.limit_tokens`."""
        return self.budget.limit_tokens

    @property
    def token_used(self) -> int:
        """Tokens of the prompt: `budget.used_tokens`."""
        return self.budget.used_tokens
