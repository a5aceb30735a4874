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
    """A text that a prompt contained, and the evidence item (or the message) that it came from."""

    source_id: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestOptions:
    """How one text is ingested.

    `redact` false stores it unchanged. `redaction_rules` replace the redactor's own. If the redactor fails, the text is
    withheld, unless `pass_through` stores it unchanged, marked as sensitive. `keep_original` stores the original text
    in the vault (if the ingestor has one). `store_content` false stores only the pointer and the hash. `confidence`
    (0..1) and `trust` take precedence over the rules; trust is never higher than that of the evidence items in
    `derived_from`. `ttl_seconds` (None: the rule of its type) is the time until it expires. `args` are the arguments of
    the call that returned the text: they identify the source like a uri. `selectors` name the parts to be shown in a
    prompt (empty: the whole). `shown` is what the prompt contained when the text was written: parts that repeat it are
    left out. `idempotency_key` names the evidence item: the same key gives the same item again. `as_document`: the text is
    knowledge to be recalled by its passages, not a result to be shown. `own_words`: a user asks to keep the text, so that only
    secrets are removed from it, its content is stored in any case, and a text that cannot be searched is refused. `dry_run`:
    nothing is stored, and the result is what it would be.
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
    as_document: bool = False
    own_words: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestResult:
    """The outcome for one text.

    `evidence` is the stored item, new or existing (`is_new`); None if the text only repeated the prompt. `recalled`
    names the sources of repeated parts. `supersedes` is the older item of the same source with another text.
    `degradations` are codes: `redaction_failed`, `redaction_off`, `dedup_skipped`, `selector_failed`,
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
        """The id of the evidence item, None if there is none."""
        return None if self.evidence is None else self.evidence.evidence_id


class ConflictPolicy(StrEnum):
    """What to do when two evidence items contradict each other about one field."""

    PREFER_TOOL_OVER_RAG = "prefer_tool_over_rag"
    PREFER_LATEST_BY_AT = "prefer_latest_by_at"
    KEEP_BOTH_AND_WARN = "keep_both_and_warn"


@dataclass(frozen=True, kw_only=True, slots=True)
class ConflictRecord:
    """Evidence items that contradict each other about one field, and the resolution.

    `resolution` is the policy that decided: the configured one, or `keep_both_and_warn` if that cannot decide.
    `preferred` is the evidence id that counts (None: both stay, with a warning); `values` has the value of each by
    evidence id.
    """

    evidence_ids: tuple[str, ...]
    field_path: str
    resolution: ConflictPolicy
    detail: str = ""
    subject: str = ""
    preferred: str | None = None
    values: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
