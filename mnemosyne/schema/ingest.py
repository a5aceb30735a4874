"""Options and results of ingestion. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import EMPTY, Trust
from mnemosyne.schema.redaction import RedactionRecord, RedactionRules


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownText:
    """A text in a prompt, and its evidence item or message."""

    source_id: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestOptions:
    """Options for the ingestion of one text."""

    redact: bool = True
    """If false, the text is stored unchanged."""
    dedup: bool = True
    confidence: float | None = None
    """0..1; takes precedence over the rules."""
    redaction_rules: RedactionRules | None = None
    """Rules that replace the redactor's own."""
    pass_through: bool = False
    """If the redactor fails, store the text unchanged, marked as sensitive; by default it is withheld."""
    keep_original: bool = False
    """Whether to store the original text in the vault (if the ingestor has one)."""
    store_content: bool = True
    """If false, only the pointer and the hash are stored."""
    trust: Trust | None = None
    """Takes precedence over the rules, but is never higher than the trust of the items in `derived_from`."""
    derived_from: tuple[str, ...] = ()
    ttl_seconds: float | None = None
    """Time until it expires (None: the rule of its type)."""
    args: Mapping[str, Any] | None = None
    """Arguments of the call that returned the text; they identify the source like a uri."""
    selectors: tuple[str, ...] = ()
    """Parts to show in a prompt (empty: the whole)."""
    shown: tuple[ShownText, ...] = ()
    """Texts of the prompt for which the text was written: parts that repeat one are left out."""
    idempotency_key: str | None = None
    """Name of the evidence item: the same key gives the same item again."""
    as_document: bool = False
    """Whether the text is knowledge to be recalled by its passages, not a result to be shown."""
    own_words: bool = False
    """Whether a user asks to keep the text: only secrets are removed from it, its content is stored in any case, and a
    text that cannot be searched for secrets is refused.
    """
    dry_run: bool = False
    """Whether to store nothing and return the result that would follow."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestResult:
    """Outcome of the ingestion of one text."""

    evidence: Evidence | None
    """The stored item, new or existing; None if the text only repeated the prompt."""
    is_new: bool = False
    redaction: RedactionRecord | None = None
    recalled: tuple[str, ...] = ()
    """Sources of the repeated parts."""
    supersedes: str | None = None
    """The older item of the same source with another text."""
    degradations: tuple[str, ...] = ()
    """Codes: `redaction_failed`, `redaction_off`, `dedup_skipped`, `selector_failed`, `original_failed`."""

    @property
    def evidence_id(self) -> str | None:
        """Id of the evidence item, None if there is none."""
        return None if self.evidence is None else self.evidence.evidence_id


class ConflictPolicy(StrEnum):
    """Policy for two evidence items that contradict each other about one field."""

    PREFER_TOOL_OVER_RAG = "prefer_tool_over_rag"
    PREFER_LATEST_BY_AT = "prefer_latest_by_at"
    KEEP_BOTH_AND_WARN = "keep_both_and_warn"


@dataclass(frozen=True, kw_only=True, slots=True)
class ConflictRecord:
    """Evidence items that contradict each other about one field, and the resolution."""

    evidence_ids: tuple[str, ...]
    field_path: str
    resolution: ConflictPolicy
    """The policy that decided: the configured one, or `keep_both_and_warn` if that cannot decide."""
    detail: str = ""
    subject: str = ""
    preferred: str | None = None
    """The evidence id that counts (None: both stay, with a warning)."""
    values: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Value of each item by evidence id."""
