"""Evidence and context blocks of session document 1.0 (seed 001; seed 002 section 5.1), and the trust in what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from mnemosyne.schema.memory import EMPTY, Trust
from mnemosyne.schema.session import Ref


class EvidenceType(StrEnum):
    """What a piece of evidence is."""

    RAG_DOC = "rag_doc"
    TOOL_RESULT = "tool_result"
    SKILL_OUTPUT = "skill_output"
    LLM_OUTPUT = "llm_output"
    USER_INPUT = "user_input"
    OTHER = "other"


class SourceKind(StrEnum):
    """What kind of source evidence came from."""

    RAG = "rag"
    TOOL = "tool"
    SKILL = "skill"
    LLM = "llm"
    USER = "user"
    SYSTEM = "system"


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceSource:
    """Where evidence came from; `uri` resolves back to it."""

    kind: SourceKind
    name: str = ""
    uri: str = ""
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceLinks:
    """Back links to the call that produced the evidence."""

    model_usage_id: str | None = None
    tool_call_id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """A citable piece of information; `confidence` is 0..1 or unknown.

    `created_at` is the time of ingestion, `expires_at` the time after which it is not used (None: never). `content` is
    empty if only the pointer is stored; `content_hash` is the SHA-256 (hex) of the content after redaction, since the
    hash of a short text (a phone number) would give it away.
    """

    evidence_id: str
    type: EvidenceType
    source: EvidenceSource
    content: str = ""
    confidence: float | None = None
    trust: Trust = Trust.AUTHORED
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    links: EvidenceLinks = EvidenceLinks()
    created_at: datetime | None = None
    expires_at: datetime | None = None
    content_hash: str = ""
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


class BlockType(StrEnum):
    """What a block of context is made of."""

    INSTRUCTION = "instruction"
    CONVERSATION = "conversation"
    STATE = "state"
    PLAN = "plan"
    EVIDENCE = "evidence"
    MEMORY = "memory"


class Priority(StrEnum):
    """How much a block matters when the budget is short; MUST blocks are never dropped."""

    MUST = "must"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextBlock:
    """A unit that can be pruned and assembled; its text is `content`, or derived from `refs`."""

    block_id: str
    block_type: BlockType
    priority: Priority
    token_estimate: int = 0
    content: str = ""
    refs: tuple[Ref, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


# How far a text may be trusted, by where it came from (spec 3.6). Ingestion, documents and prompts read trust by these rules
# alone, so that a text has the same label in whatever way it comes.
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
    """Return the trust label of a source (spec 3.6).

    It depends on the source's kind; whatever comes from a web address is `web`, even when a tool fetched it. Retrieved
    text is `authored` only if it is the world's own lore, otherwise it has the label of the tool that found it.
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


def trust_in_document(source: EvidenceSource, kind: EvidenceType) -> Trust:
    """Return the trust of evidence that states none in its document (seed 001 has no such field).

    A memory that a turn recalled is `authored` then: other labels of memories are always written.
    """
    is_memory = source.kind is SourceKind.RAG and source.uri.startswith(OWN_SCHEME)
    return Trust.AUTHORED if is_memory else trust_of(source, kind)


def lowest_trust(labels: Iterable[Trust]) -> Trust:
    """Return the least trusted label; a text made from several is only as trusted as the worst of them."""
    return max(labels, key=TRUST_ORDER.index)


def names_web_address(args: Any, depth: int = 0) -> bool:
    """Return whether the arguments of a call hold a web address: what the call returned may have come from there."""
    if isinstance(args, str):
        return args.strip().lower().startswith(_WEB)
    if depth > _DEEPEST:
        return True
    if isinstance(args, Mapping):
        return any(names_web_address(each, depth + 1) for each in args.values())
    return isinstance(args, list | tuple) and any(names_web_address(each, depth + 1) for each in args)


def trust_of_call(source: EvidenceSource, kind: EvidenceType, args: Mapping[str, Any] | None) -> Trust:
    """Return the trust label of what a call with these arguments returned."""
    label = trust_of(source, kind)
    is_fetched = source.kind in _FETCHING and names_web_address(args)
    return lowest_trust((label, Trust.WEB)) if is_fetched else label
