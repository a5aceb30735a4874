"""What is asked of ingestion and what came of it (seed 002 sections 5.1.3, 6.3 and 8.3; spec 3.6). Values only."""

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
    """A text that a prompt held, and the evidence (or the message) that it was taken from."""

    source_id: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestOptions:
    """How one text is taken in.

    `redact` off keeps it as it is. `redaction_rules` take the place of the redactor's own. When the redactor fails the text
    is withheld, unless `pass_through` lets it in as it is, marked as sensitive. `keep_original` puts what redaction took
    out apart (only where the ingestor has a vault). `store_content` off keeps the pointer and the hash alone. `confidence`
    (0..1) and `trust` come before the rules; trust never rises above that of the evidences in `derived_from`.
    `ttl_seconds` (None: the rule of its type) ends its use. `args` are the arguments of the call that gave the text: they
    stand in for a uri. `selectors` say which parts are shown in a prompt (empty: the whole). `shown` is what the prompt
    held when the text came: what it says again is no news. `idempotency_key` names the evidence: the same key again
    gives the same evidence.
    """

    redact: bool = True
    dedup: bool = True
    confidence: float | None = None
    redaction_rules: RedactionRules | None = None
    pass_through: bool = False
    keep_original: bool = False
    store_content: bool = True
    trust: Trust | None = None
    derived_from: tuple[str, ...] = ()
    ttl_seconds: float | None = None
    args: Mapping[str, Any] | None = None
    selectors: tuple[str, ...] = ()
    shown: tuple[ShownText, ...] = ()
    idempotency_key: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestResult:
    """What came of one text.

    `evidence` is what is kept of it, or was before (`is_new` tells which); None when it said nothing but what the prompt had
    shown. `recalled` names the sources of what it said again. `supersedes` is the evidence of the same source that said
    otherwise before. `degradations` are codes: `redaction_failed`, `redaction_off`, `dedup_skipped`, `selector_failed`,
    `original_failed`.
    """

    evidence: Evidence | None
    is_new: bool = False
    redaction: RedactionRecord | None = None
    recalled: tuple[str, ...] = ()
    supersedes: str | None = None
    degradations: tuple[str, ...] = ()

    @property
    def evidence_id(self) -> str | None:
        """The id of the evidence, None when there is none."""
        return None if self.evidence is None else self.evidence.evidence_id


class ConflictPolicy(StrEnum):
    """What to do when two evidences say different things about one field (seed 002 section 8.3)."""

    PREFER_TOOL_OVER_RAG = "prefer_tool_over_rag"
    PREFER_LATEST_BY_AT = "prefer_latest_by_at"
    KEEP_BOTH_AND_WARN = "keep_both_and_warn"


@dataclass(frozen=True, kw_only=True, slots=True)
class ConflictRecord:
    """Evidences that contradict each other about one field, and what was done.

    `resolution` is the policy that decided: the configured one, or `keep_both_and_warn` where that one cannot tell.
    `preferred` is the evidence that counts (None: both stay, with a warning); `values` is what each says, by evidence id.
    """

    evidence_ids: tuple[str, ...]
    field_path: str
    resolution: ConflictPolicy
    detail: str = ""
    subject: str = ""
    preferred: str | None = None
    values: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
