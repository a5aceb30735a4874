"""What a rule of redaction is, and the names of the shipped dictionaries. Values only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

PII = "pii"
IDENTITY = "identity"
SECRETS = "secrets"
INTERNAL_URLS = "internal_urls"

HAN = r"\u4e00-\u9fff"
IS = r"[\"'”’]?[ \t]{0,3}(?:\([^()\n]{0,30}\)[ \t]{0,2})?(?:[:=]|[–-][ \t]|->|is[ \t])[ \t]{0,3}[\"'“‘]?"
"""What stands between a label and its value."""
CHINESE_IS = r"[\"'”’】]?[ \t]{0,3}(?:[:：=]|是|为)[ \t]{0,3}[\"'“‘]?"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One thing to look for. `group` of `pattern` is removed if `holds` (where given) accepts its text, and `holds_at` (where
    given) the whole text with the place of the group.

    `hints`: the pattern is tried only if the text contains one of these (lower case; empty: always). A match that
    overlaps one of the rule named `unless`, which comes before, is left to that rule.
    """

    name: str
    dictionary: str
    pattern: str
    holds: Callable[[str], bool] | None = None
    holds_at: Callable[[str, int, int], bool] | None = None
    group: int = 0
    hints: tuple[str, ...] = ()
    unless: str = ""
