"""Evidence and context blocks of session document 1.0 (seed 001; seed 002 section 5.1)."""

from __future__ import annotations

from collections.abc import Mapping
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
