"""Rules and results of redaction. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class RedactionRules:
    """Rules for removing data from a text."""

    patterns: tuple[str, ...] = ()
    """Regular expressions, bounded in time."""
    field_paths: tuple[str, ...] = ()
    """JSONPaths (`$.user.phone`, or `user.phone`) whose values are removed from JSON content."""
    dictionaries: tuple[str, ...] = ("pii", "identity", "secrets")
    """Shipped rule sets: `pii`, `identity`, `secrets`, `internal_urls`."""
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Words of the host by class (whole words, in either case). The placeholder names the class:
    `[redacted:own_<class>]` (lower-case letters and underscores).
    """
    named_patterns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Regular expressions of the host by class."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SensitiveSpan:
    """Characters `begin` up to, not including, `end` of a text, and the name of the rule that found them."""

    rule: str
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RedactResult:
    """A text after redaction."""

    redacted_text: str
    applied_rules: tuple[str, ...] = ()
    """Names of the rules that found something now, each once."""
    has_sensitive: bool = False
    """Whether anything was found now."""
    spans: tuple[SensitiveSpan, ...] = ()
    """The placeholders in `redacted_text`, in order, including those of an earlier redaction."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RedactionRecord:
    """Report of the redaction of one evidence item; it contains no text."""

    evidence_id: str
    """Empty for a block that is not evidence."""
    rules_applied: tuple[str, ...] = ()
    """Rules in order of first finding."""
    fields_redacted: int = 0
    """Number of changed fields (content, metadata, …)."""
    block_id: str = ""
    """In a receipt, the block of the prompt."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """In a receipt, the number of redacted places by class (`phone`, `email`, …)."""
