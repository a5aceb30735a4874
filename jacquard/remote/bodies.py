"""Bodies and answers of operations that have no value of the engine for them, and the limits of their sizes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from typing import Any

from jacquard.core.errors import ConfigError
from jacquard.core.receipt import Report
from jacquard.remote.operation import Scope
from mnemosyne.schema.document import ModelUsage, Task, ToolCall
from mnemosyne.schema.evidence import EvidenceLinks, EvidenceSource, EvidenceType
from mnemosyne.schema.ingest import IngestOptions
from mnemosyne.schema.memory import EMPTY, LoreCategory, MemoryEntry, UserFact
from mnemosyne.schema.session import Message, Ref, TurnKind, TurnStatus
from mnemosyne.schema.world import WorldPack
from mnemosyne.world.pack_json import PACK_FORMAT

MOST = "most"
"""Key in a field's metadata of another limit than that of all lists."""

MOST_MESSAGES = 25_000
"""Maximum number of messages of a conversation in a request."""

MOST_ENTRIES = 1_000
MOST_CHARS = 20_000
"""Maximum characters of a name, a reason or another text that is not content."""

_CONTENTS = frozenset({"content", "text", "result", "chunk", "message", "messages"})
"""Fields whose texts may be long; the settings of the engine limit them."""

SentChatMessage = str | dict[str, Any]
"""A message: its text, the object of a chat API (`role`, `content`, `tool_calls`…), or a stored message with all its fields."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionRequest:
    """A session to start. `world_id` names a world of the store; without it the session begins in the world of the service."""

    session_id: str
    world_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionPage:
    """Session ids in order; `next` continues the list (null at its end)."""

    items: tuple[str, ...]
    next: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PastTurn:
    """A committed turn of the history, without its prompt and its receipt."""

    turn_id: str
    branch_id: str
    depth: int
    kind: TurnKind
    status: TurnStatus
    messages: tuple[Message, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnPage:
    """Turns, oldest first; `before` continues to older ones (null where there are none)."""

    items: tuple[PastTurn, ...]
    before: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentRequest:
    """A session document (1.0) to write; it replaces the stored one if that has `expected_version`."""

    document: dict[str, Any]
    expected_version: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EditRequest:
    """Another text for a message."""

    content: str
    branch_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptRequest:
    """Messages that were exchanged elsewhere, oldest first."""

    messages: tuple[SentChatMessage, ...] = field(metadata={MOST: MOST_MESSAGES})


@dataclass(frozen=True, kw_only=True, slots=True)
class ForkRequest:
    """A branch to open after a committed turn (null: before the first)."""

    turn_id: str | None = None
    branch_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SwitchRequest:
    """The branch to make the active one."""

    branch_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RollbackRequest:
    """The committed turn to go back to (null: before the first)."""

    turn_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchRequest:
    """The branch to work on (null: the active one)."""

    branch_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsolidateRequest:
    """Branch to consolidate; `chapter_ends`: a chapter ends with its head."""

    branch_id: str | None = None
    chapter_ends: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RepairRequest:
    """Ops on the state by the host's own hand, all or none, as a model writes them."""

    ops: tuple[list[Any] | dict[str, Any], ...]
    reason: str = ""
    branch_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TasksRequest:
    """Tasks to write or replace by id."""

    tasks: tuple[Task, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnRequest:
    """Input of a turn. `config` overrides the service's settings for this turn, nested as in the settings file.

    With `dry_run` nothing is written.
    """

    message: SentChatMessage
    config: dict[str, Any] | None = None
    turn_id: str | None = None
    branch_id: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AgainRequest:
    """A turn to prepare again: `turn_id` for another reply to that turn (default: the newest)."""

    config: dict[str, Any] | None = None
    turn_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TailRequest:
    """The host's own tool calls and results, as messages of the OpenAI API, to follow the prompt of a turn."""

    tail: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptAnswer:
    """A prompt as messages of the OpenAI API."""

    messages: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplyRequest:
    """A reply to the pending turn, or to the turn of an id."""

    message: SentChatMessage
    refs: tuple[Ref, ...] | None = None
    turn_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkRequest:
    """A chunk of a reply, numbered from 0."""

    chunk: str
    chunk_index: int
    turn_id: str | None = None
    message_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FinalizeRequest:
    """The end of a reply that came in chunks."""

    refs: tuple[Ref, ...] | None = None
    turn_id: str | None = None
    message_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class AbortRequest:
    """Reply whose chunks are to be dropped."""

    turn_id: str | None = None
    message_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class AbortAnswer:
    """Number of chunks that were dropped."""

    chunks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCallRequest:
    """A tool call, with the ids of the evidence of its results or with the result itself."""

    tool_call: ToolCall
    result_evidence_ids: tuple[str, ...] | None = None
    result: str | None = None
    options: IngestOptions | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageRequest:
    """A call of a model, with the evidence of its answer."""

    model_usage: ModelUsage
    llm_output_evidence_id: str | None = None
    turn_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceiptAnswer:
    """The receipt of a turn: its report, the tokens of each block of what was sent, and its model calls, oldest first."""

    turn_id: str
    report: Report
    tokens_by_block: dict[str, int]
    calls: tuple[ModelUsage, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayAnswer:
    """A replay of a prompt from its record: `differences` are sentences; there are none if the same bytes came out."""

    turn_id: str
    differences: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceRequest:
    """A text from outside to take into a session as evidence."""

    content: str
    source: EvidenceSource
    evidence_type: EvidenceType
    links: EvidenceLinks | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    options: IngestOptions | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FactsRequest:
    """Facts about a user. With `dry_run` nothing is stored."""

    facts: tuple[UserFact, ...]
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldName:
    """A world of the store, and the digest of its present version."""

    world_id: str
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldDocument:
    """A world pack, and the version of its form: what a GET gives, a PUT takes."""

    pack: WorldPack
    format: int = PACK_FORMAT


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldRequest:
    """A `WorldDocument` whose faults are all reported, not only the first."""

    pack: dict[str, Any]
    format: int = PACK_FORMAT


@dataclass(frozen=True, kw_only=True, slots=True)
class LorePage:
    """Entries of lore in the order of the pack; `next` is the offset of the next page (null at the end)."""

    items: tuple[MemoryEntry, ...]
    next: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureRequest:
    """Target of an erasure: one of a user, a session, evidence of a session. With `dry_run` nothing is changed."""

    user_id: str | None = None
    session_id: str | None = None
    evidence_ids: tuple[str, ...] = ()
    reason: str = ""
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureAnswer:
    """Data that an erasure removed, or would remove (`dry_run`), without any of its text.

    `counts` are the removed items by kind: empty if nothing was there. `done` is true if everything is gone and a search has
    proved it; `remains` are rows and files that still contain a text, `faults` items that could not be erased, `mentions` rows
    of others that contain the id as a word, `not_covered` the data that an erasure leaves by its rules.
    """

    dry_run: bool
    done: bool
    kind: str
    sessions: tuple[str, ...]
    touched: tuple[str, ...]
    messages: int
    evidences: int
    originals: int
    counts: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    audit_id: str = ""
    remains: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimateRequest:
    """Messages to count for a model (null: that of the settings)."""

    messages: tuple[dict[str, Any], ...] = field(metadata={MOST: MOST_MESSAGES})
    model_hint: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimateAnswer:
    """Cost of messages in tokens."""

    tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRequest:
    """A token to make for the own tenant: what it allows, for which viewer, until when."""

    scope: Scope = Scope.PLAY
    viewer: str | None = None
    note: str = ""
    expires_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenAnswer:
    """A new token, which is not shown again, and what is known of it."""

    token: str
    record: TokenRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchRequest:
    """Text to search for, and the number of memories to return (1 to 100)."""

    text: str
    limit: int = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class RememberRequest:
    """A text to remember. With `dry_run` nothing is stored."""

    text: str
    title: str = ""
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryTextRequest:
    """New text for a memory; only `supersede` accepts an empty one. With `dry_run` nothing is stored."""

    text: str = ""
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptRequest:
    """The text to remember instead of the proposed one (empty: that one)."""

    text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgottenMemory:
    """The ids of the evidence that was erased."""

    evidence_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContinueRequest:
    """A session to start with memories of another: all, those named, or the best `limit` that a search for `query` finds."""

    new_session_id: str
    memory_ids: tuple[str, ...] | None = None
    query: str = ""
    limit: int = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class StateRequest:
    """Values to set, by their flat paths (`hero.health`); all or none."""

    changes: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class LoreRequest:
    """A new entry of lore. `viewers` may know it (empty: everyone)."""

    text: str
    title: str = ""
    keys: tuple[str, ...] = ()
    category: LoreCategory = LoreCategory.ENCYCLOPEDIA
    viewers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LoreChange:
    """Changes of a lore entry (null: unchanged)."""

    text: str | None = None
    title: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditedCall:
    """One call: when (aware), with which token, by which operation, in which request."""

    at: datetime | None
    token_id: str
    operation: str
    request_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRecord:
    """Stored token: its rights and its hash. `token_id` is not a secret. Times are aware."""

    token_id: str
    tenant: str
    scope: Scope
    viewer: str | None = None
    note: str = ""
    created_at: datetime | None = None
    expires_at: datetime | None = None
    revoked: bool = False


def check_sizes(body: Any, place: str = "") -> None:
    """Raise ConfigError for the first part of a request's body that is larger than its field may be.

    `limits.body_bytes` limits the contents of a free mapping or a message of a chat API.
    """
    for each in fields(body):
        value, named = getattr(body, each.name), f"{place}{each.name}"
        is_list = isinstance(value, Sized) and not isinstance(value, str)
        most = each.metadata.get(MOST, MOST_ENTRIES)
        if is_list and len(value) > most:
            raise ConfigError(f"{named} has {len(value):,} entries; send at most {most:,} at once.")
        is_short = each.name not in _CONTENTS and not isinstance(value, Mapping)
        for item in (value.values() if isinstance(value, Mapping) else value) if is_list else (value,):
            if is_dataclass(item):
                check_sizes(item, f"{named}.")
            elif is_short and isinstance(item, str) and len(item) > MOST_CHARS:
                raise ConfigError(f"{named} has {len(item):,} characters; it may have at most {MOST_CHARS:,}.")
