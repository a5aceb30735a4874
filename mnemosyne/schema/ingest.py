"""Defines the options and results of ingestion, which stores a text from outside in a session as evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import EMPTY, Trust
from mnemosyne.schema.redaction import RedactionRecord, RedactionRules
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownText:
    """A text in a prompt, and the id of the evidence item or message that it comes from."""

    source_id: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestOptions:
    """Options for the ingestion of one text."""

    redact: bool = True
    """Whether to remove sensitive data from the text. If false, the text is stored unchanged."""
    dedup: bool = True
    """Whether to return an existing item instead of storing the same text again."""
    confidence: float | None = None
    """Confidence of the evidence, from 0 to 1 (None: set by rules)."""
    redaction_rules: RedactionRules | None = None
    """Rules that replace the redactor's own rules."""
    pass_through: bool = False
    """Whether to store the text unchanged, marked as sensitive, if the redactor fails. Otherwise the text is withheld."""
    keep_original: bool = False
    """Whether to store the original text in the vault (if the ingestor has one)."""
    store_content: bool = True
    """Whether to store the text. If false, only the pointer to its source and the hash are stored."""
    trust: Trust | None = None
    """Trust label of the text (None: set by rules). It is never higher than the trust of the items in `derived_from`."""
    derived_from: tuple[str, ...] = ()
    """Ids of the evidence items from which the text was made."""
    ttl_seconds: float | None = None
    """Time until the item expires (None: the rule for its type decides)."""
    args: Mapping[str, Any] | None = None
    """Arguments of the call that returned the text. They identify the source as a `uri` does."""
    selectors: tuple[str, ...] = ()
    """Parts of the text that prompts show (empty: the whole text)."""
    shown: tuple[ShownText, ...] = ()
    """Texts in the prompt that led to this text. Parts of this text that repeat one of them are left out."""
    idempotency_key: str | None = None
    """Key of the call. A second call with the same key returns the same item."""
    as_document: bool = False
    """Whether recall finds the text by its passages, as knowledge. Otherwise the text is shown as a result."""
    own_words: bool = False
    """Whether a user asked to keep this text. Then only secrets are removed, and the content is always stored. A text that
    cannot be searched for secrets is refused.
    """
    dry_run: bool = False
    """Whether to store nothing, and only return the result that a real call would have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestResult:
    """Outcome of the ingestion of one text."""

    evidence: Evidence | None
    """The stored item, new or existing (None: the text only repeated the prompt, so nothing was stored)."""
    is_new: bool = False
    redaction: RedactionRecord | None = None
    recalled: tuple[str, ...] = ()
    """Ids of the evidence items or messages that parts of the text repeat."""
    supersedes: str | None = None
    """Id of the older item of the same source, if that has another text."""
    degradations: tuple[str, ...] = ()
    """Codes of steps that failed or were left out: `redaction_failed`, `redaction_off`, `dedup_skipped`, `selector_failed`,
    `original_failed`.
    """

    @property
    def evidence_id(self) -> str | None:
        """Id of the evidence item (None: there is no item)."""
        return None if self.evidence is None else self.evidence.evidence_id


class ConflictPolicy(StrEnum):
    """Policy for evidence items that have different values for the same field."""

    PREFER_TOOL_OVER_RAG = "prefer_tool_over_rag"
    PREFER_LATEST_BY_AT = "prefer_latest_by_at"
    KEEP_BOTH_AND_WARN = "keep_both_and_warn"


@dataclass(frozen=True, kw_only=True, slots=True)
class ConflictRecord:
    """Evidence items that have different values for the same field, and how the conflict was resolved."""

    evidence_ids: tuple[str, ...]
    field_path: str
    resolution: ConflictPolicy
    """The policy that was used: the configured policy, or `keep_both_and_warn` if the configured policy cannot decide."""
    detail: str = ""
    subject: str = ""
    preferred: str | None = None
    """Id of the evidence item whose value is used (None: all items stay, with a warning)."""
    values: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Values of the field, by evidence id."""
