"""Rules and results of redaction. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class RedactionRules:
    """What to remove from a text.

    `dictionaries` names shipped rule sets (`pii`, `identity`, `secrets`, `internal_urls`); `patterns` are regular
    expressions, bounded in time; `field_paths` are JSONPaths (`$.user.phone`, or `user.phone`) whose values are removed from
    JSON content. `words` and `named_patterns` are dictionaries of the host: words (whole ones, in either case) and regular
    expressions by class, which is named in the placeholder (`[redacted:own_<class>]`: lower-case letters and underscores).
    """

    patterns: tuple[str, ...] = ()
    field_paths: tuple[str, ...] = ()
    dictionaries: tuple[str, ...] = ("pii", "identity", "secrets")
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    named_patterns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class SensitiveSpan:
    """Characters `begin` up to, not including, `end` of a text, and the name of the rule that found them."""

    rule: str
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RedactResult:
    """A text after redaction.

    `applied_rules`: names of the rules that found something now, each once. `spans`: the placeholders in
    `redacted_text`, in order, including those of an earlier redaction. `has_sensitive`: whether anything was found now.
    """

    redacted_text: str
    applied_rules: tuple[str, ...] = ()
    has_sensitive: bool = False
    spans: tuple[SensitiveSpan, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RedactionRecord:
    """What redaction did to one evidence item: rules in order of first finding, and the number of changed fields
    (content, metadata, …).

    In a receipt `block_id` is the block of the prompt in which it stands, and `counts` says how many places of each class
    (`phone`, `email`, …) are redacted there; `evidence_id` is empty for a block that is no evidence. No text is in it.
    """

    evidence_id: str
    rules_applied: tuple[str, ...] = ()
    fields_redacted: int = 0
    block_id: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
