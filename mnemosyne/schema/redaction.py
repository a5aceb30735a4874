"""Defines the rules and results of redaction, which replaces sensitive data in texts by placeholders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class RedactionRules:
    """Rules that state which data are removed from a text."""

    patterns: tuple[str, ...] = ()
    """Regular expressions. Each runs only for a limited time."""
    field_paths: tuple[str, ...] = ()
    """JSONPaths (`$.user.phone`, or `user.phone`) whose values are removed from JSON content."""
    dictionaries: tuple[str, ...] = ("pii", "identity", "secrets")
    """Names of built-in rule sets: `pii`, `identity`, `secrets`, `internal_urls`."""
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The host's own words by class. Only whole words are replaced, in upper or lower case. The placeholder contains the name of
    the class (lower-case letters and underscores): `[redacted:own_<class>]`.
    """
    named_patterns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The host's own regular expressions, by class."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SensitiveSpan:
    """Place of sensitive data in a text, from `begin` to `end` (not included), and the name of the rule that found it."""

    rule: str
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RedactResult:
    """A text after redaction."""

    redacted_text: str
    applied_rules: tuple[str, ...] = ()
    """Names of the rules that found something in this redaction, each once."""
    has_sensitive: bool = False
    """Whether this redaction found anything."""
    spans: tuple[SensitiveSpan, ...] = ()
    """Places of the placeholders in `redacted_text`, in order. Placeholders from earlier redactions are included."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RedactionRecord:
    """Report on the redaction of an evidence item, or of a block in a prompt. It contains none of the text."""

    evidence_id: str
    """Id of the evidence item (empty: the redacted block is not evidence)."""
    rules_applied: tuple[str, ...] = ()
    """Names of the rules that found something, in the order of their first finds."""
    fields_redacted: int = 0
    """Number of changed fields (content, metadata, …)."""
    block_id: str = ""
    """Id of the block of the prompt. It is set only in receipts."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of redacted places by class (`phone`, `email`, …). It is set only in receipts."""
