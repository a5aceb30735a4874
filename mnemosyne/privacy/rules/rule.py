"""Defines a rule of redaction, the kinds of characters that a rule needs, and the names of the shipped dictionaries."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntFlag

from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.values import dataclass

PII = "pii"
IDENTITY = "identity"
SECRETS = "secrets"
INTERNAL_URLS = "internal_urls"

HAN = r"\u4e00-\u9fff"
IS = r"[\"'”’]?[ \t]{0,3}(?:\([^()\n]{0,30}\)[ \t]{0,2})?(?:[:=]|[–-][ \t]|->|is[ \t])[ \t]{0,3}[\"'“‘]?"
"""Pattern of the text between a label and its value."""
CHINESE_IS = r"[\"'”’】]?[ \t]{0,3}(?:[:：=]|是|为)[ \t]{0,3}[\"'“‘]?"


class Signs(IntFlag):
    """Kinds of characters in a text. Most texts are short and lack the characters that most rules need."""

    NONE = 0
    DIGIT = 1
    SEVEN_DIGITS = 2
    CAPITAL = 4
    HAN = 8
    LONG = 16
    """At least 15 characters, the length of the shortest keys."""


_SEVEN_DIGITS = re.compile(r"(?:[0-9][^0-9]*+){7}")
_DIGIT = re.compile(r"[0-9]")
_HAN = lazy_pattern(f"[{HAN}]")


def signs_of(text: str, lower: str) -> Signs:
    """Return the kinds of characters in `text`; `lower` is the text in lower case."""
    signs = Signs.CAPITAL if lower != text else Signs.NONE
    if len(text) >= 15:
        signs |= Signs.LONG
    if _DIGIT.search(text):
        signs |= Signs.DIGIT | (Signs.SEVEN_DIGITS if _SEVEN_DIGITS.search(text) else Signs.NONE)
    return signs if text.isascii() or _HAN.search(text) is None else signs | Signs.HAN


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One rule of redaction: a pattern to search for, and checks of its matches."""

    name: str
    dictionary: str
    """Shipped dictionary to which the rule belongs."""
    pattern: str
    holds: Callable[[str], bool] | None = None
    """Returns whether a match counts, by the text of the match (None: all count)."""
    holds_at: Callable[[str, int, int], bool] | None = None
    """Returns whether a match counts, by (whole text, begin, end) of the match (None: all count)."""
    group: int = 0
    """Group of `pattern` that is removed."""
    hints: tuple[str, ...] = ()
    """Texts in lower case, one of which must occur before the pattern is tried (empty: always tried)."""
    needs: Signs = Signs.NONE
    """Kinds of characters that must all occur before the pattern is tried."""
    unless: str = ""
    """Name of an earlier rule. A match that overlaps a match of that rule does not count."""
    also: str = ""
    """Name of a second dictionary to which the rule belongs."""
