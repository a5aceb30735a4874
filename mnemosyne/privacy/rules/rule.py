"""What a rule of redaction is, and the names of the shipped dictionaries. Values only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

PII = "pii"
IDENTITY = "identity"
SECRETS = "secrets"
INTERNAL_URLS = "internal_urls"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One thing to look for. `group` of `pattern` is removed if `holds` (where given) accepts its text.

    `hints`: the pattern is tried only if the text contains one of these (lower case; empty: always). A match that
    overlaps one of the rule named `unless`, which comes before, is left to that rule.
    """

    name: str
    dictionary: str
    pattern: str
    holds: Callable[[str], bool] | None = None
    group: int = 0
    hints: tuple[str, ...] = ()
    unless: str = ""
