"""Defines evidence (citable texts with their sources) and context blocks (units of a prompt), and how far texts are trusted.

The values belong to the session document 1.0. The functions at the end derive the trust label of a text from its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from mnemosyne.schema.memory import EMPTY, Trust, read_audience
from mnemosyne.schema.session import Ref
from mnemosyne.values import dataclass


class EvidenceType(StrEnum):
    """Kind of a piece of evidence."""

    RAG_DOC = "rag_doc"
    TOOL_RESULT = "tool_result"
    SKILL_OUTPUT = "skill_output"
    LLM_OUTPUT = "llm_output"
    USER_INPUT = "user_input"
    OTHER = "other"


class SourceKind(StrEnum):
    """Kind of the source of evidence."""

    RAG = "rag"
    TOOL = "tool"
    SKILL = "skill"
    LLM = "llm"
    USER = "user"
    SYSTEM = "system"


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceSource:
    """Source of evidence. `uri` is the address at which the source can be found again."""

    kind: SourceKind
    name: str = ""
    uri: str = ""
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceLinks:
    """Links from evidence to the call that produced it, and to the turn in which it was found."""

    model_usage_id: str | None = None
    tool_call_id: str | None = None
    turn_id: str | None = None
    """Turn in which the evidence was found. Empty: it belongs to the session, not to a turn. None: the turn is unknown."""
    viewer: str | None = None
    """Viewer for whom the turn was prepared (None: no viewer)."""
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """A citable piece of information."""

    evidence_id: str
    type: EvidenceType
    source: EvidenceSource
    content: str = ""
    """Empty if only the pointer is stored."""
    confidence: float | None = None
    """From 0 to 1 (None: unknown)."""
    trust: Trust = Trust.AUTHORED
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    links: EvidenceLinks = field(default_factory=EvidenceLinks)
    created_at: datetime | None = None
    """Time of ingestion."""
    expires_at: datetime | None = None
    """Time after which the item is no longer used (None: it does not expire)."""
    content_hash: str = ""
    """SHA-256 (hex) of the content after redaction, or the digest by the host's own hasher. The original content is not hashed,
    because the hash of a short text, such as a phone number, would reveal the text.
    """
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


def readers_of(evidence: Evidence) -> tuple[str, ...]:
    """Return the viewers who may know an evidence item (empty: everyone).

    They are the viewers that its metadata declares. If it declares none, only the viewer of its turn may know it.
    """
    viewer = evidence.links.viewer
    return read_audience(evidence.metadata) or (() if viewer is None else (viewer,))


def is_of_unknown_turn(evidence: Evidence) -> bool:
    """Return whether evidence comes from a tool call but has no turn id. It is then unknown which viewers may know it."""
    return evidence.links.tool_call_id is not None and evidence.links.turn_id is None


class BlockType(StrEnum):
    """Kind of a context block."""

    INSTRUCTION = "instruction"
    CONVERSATION = "conversation"
    STATE = "state"
    PLAN = "plan"
    EVIDENCE = "evidence"
    MEMORY = "memory"


class Priority(StrEnum):
    """Importance of a block if the token budget is too small for all blocks. MUST blocks are never dropped."""

    MUST = "must"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextBlock:
    """A unit of a prompt, which can be left out. Its text is `content`, or is derived from the evidence in `refs`."""

    block_id: str
    block_type: BlockType
    priority: Priority
    token_estimate: int = 0
    content: str = ""
    refs: tuple[Ref, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


class RefFault(StrEnum):
    """Reason why the original text of a ref (a pointer to evidence) is not available.

    A degradation that reports the reason has it as its code.
    """

    SOURCE_CHANGED = "source_changed"
    EVIDENCE_NOT_FOUND = "evidence_not_found"
    SELECTOR_RESOLVE_FAILED = "selector_resolve_failed"
    EVIDENCE_EXPIRED = "evidence_expired"
    CONTENT_NOT_STORED = "content_not_stored"


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedRef:
    """The text to which a ref points, or the fault that makes the text unavailable."""

    ref: Ref
    text: str = ""
    """The text. With the fault SOURCE_CHANGED it is the current text of the source; with any other fault it is empty."""
    fault: RefFault | None = None
    detail: str = ""
    """Sentence on the fault. It begins with the fault's code."""
    evidence: Evidence | None = None


class RenderFormat(StrEnum):
    """The form in which a block's text is rendered."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderHints:
    """Options for rendering a block. Raises ValueError if `format` is unknown or `max_chars` is below 1."""

    max_chars: int | None = None
    """Maximum number of characters of one block (None: no limit)."""
    format: str = RenderFormat.TEXT
    """A member of `RenderFormat`, or its value."""

    def __post_init__(self) -> None:
        if self.format not in tuple(RenderFormat):
            raise ValueError(f"RenderHints.format is {self.format!r}; write one of {', '.join(RenderFormat)}.")
        if self.max_chars is not None and self.max_chars < 1:
            raise ValueError(f"RenderHints.max_chars is {self.max_chars}; give a number above 0, or None for no limit.")


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedBlock:
    """A block with its text. `rendered_content` is plain text. The engine escapes it and counts its tokens again."""

    block_id: str
    block_type: BlockType
    priority: Priority
    rendered_content: str
    token_estimate: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class DeriveOptions:
    """Selects the parts of a session from which a prompt is derived."""

    include_conversation: bool = True
    include_state: bool = True
    """Whether to include the state, the plan and the tasks."""
    include_evidences: bool = True
    custom_instructions: tuple[ContextBlock, ...] = ()
    """Blocks of the host that are in every prompt."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "custom_instructions", tuple(self.custom_instructions or ()))


# Trust of a text by its source. Ingestion, documents and prompts use only these rules, so that a text has the same
# label on every way.
TRUST_ORDER = (Trust.AUTHORED, Trust.USER, Trust.TOOL, Trust.MODEL, Trust.WEB)
"""Trust labels from the most to the least trusted."""

OWN_SCHEME = "mnemosyne://"
_OWN_WORLD = f"{OWN_SCHEME}world:"
_WEB = ("http://", "https://", "ftp://", "ftps://")
_TRUST: Mapping[SourceKind, Trust] = {
    SourceKind.USER: Trust.USER,
    SourceKind.TOOL: Trust.TOOL,
    SourceKind.SKILL: Trust.TOOL,
    SourceKind.LLM: Trust.MODEL,
    SourceKind.SYSTEM: Trust.AUTHORED,
}
_FETCHING = (SourceKind.RAG, SourceKind.TOOL, SourceKind.SKILL)
_DEEPEST = 20


def trust_of(source: EvidenceSource, kind: EvidenceType) -> Trust:
    """Return the trust label of evidence of type `kind` from a source.

    The label depends on the kind of the source. A text that was fetched from a web address is `web`, even if a tool fetched it.
    Retrieved text (RAG) is `authored` if it is the world's own lore, else `tool`. Output of a model is at most `model`, and input
    of a user at most `user`.
    """
    uri = source.uri.strip().lower()
    label = _TRUST.get(source.kind, Trust.TOOL)
    if source.kind is SourceKind.RAG:
        label = Trust.AUTHORED if uri.startswith(_OWN_WORLD) else Trust.TOOL
    if kind is EvidenceType.LLM_OUTPUT:
        label = lowest_trust((label, Trust.MODEL))
    if kind is EvidenceType.USER_INPUT:
        label = lowest_trust((label, Trust.USER))
    return Trust.WEB if source.kind in _FETCHING and uri.startswith(_WEB) else label


def is_memory(uri: str) -> bool:
    """Return whether a source address belongs to the store. Such evidence is a memory that a turn has recalled."""
    return uri.startswith(OWN_SCHEME)


def trust_in_document(source: EvidenceSource, kind: EvidenceType) -> Trust:
    """Return the trust of evidence whose document does not state it.

    A recalled memory without a label is `authored`, because documents always state the other labels of memories. For other
    evidence, it is the result of `trust_of`.
    """
    recalled = source.kind is SourceKind.RAG and is_memory(source.uri)
    return Trust.AUTHORED if recalled else trust_of(source, kind)


def lowest_trust(labels: Iterable[Trust]) -> Trust:
    """Return the least trusted of `labels`. A text that is made from several texts has this label."""
    return max(labels, key=TRUST_ORDER.index)


def names_web_address(args: Any, depth: int = 0) -> bool:
    """Return whether the arguments of a call contain a web address. The result of the call may then come from the web.

    Arguments that are nested too deeply to be searched count as True.
    """
    if isinstance(args, str):
        return args.strip().lower().startswith(_WEB)
    if depth > _DEEPEST:
        return True
    if isinstance(args, Mapping):
        return any(names_web_address(each, depth + 1) for each in args.values())
    return isinstance(args, list | tuple) and any(names_web_address(each, depth + 1) for each in args)


def trust_of_call(source: EvidenceSource, kind: EvidenceType, args: Mapping[str, Any] | None) -> Trust:
    """Return the trust label of the result of a call with the arguments `args`."""
    label = trust_of(source, kind)
    is_fetched = source.kind in _FETCHING and names_web_address(args)
    return lowest_trust((label, Trust.WEB)) if is_fetched else label
