"""Recognises messages that only repeat others: "I look around, time 3." for the eighth time. Pure; imports no part of curation."""

from __future__ import annotations

import re
from functools import lru_cache

from mnemosyne.retrieval.text.words import word_tokens

SEVERAL = 3
"""So many messages that differ in their numbers alone are one habit; two may be two facts ("paid 5 coins", "paid 7 coins")."""
_NUMBERS = re.compile(
    r"第?\s?(?:\d+(?:[.,]\d+)*|[一二三四五六七八九十百千万两]+)"
    r"|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth)\b",
    re.IGNORECASE,
)


def squeeze(text: str) -> str:
    """Return a text without blanks, so that lines do not matter where texts are compared."""
    return "".join(text.split())


@lru_cache(maxsize=1 << 12)
def repeat_key(text: str) -> tuple[str, ...]:
    """Return what a message says beside its numbers: messages with the same key repeat one another."""
    return tuple(word_tokens(_NUMBERS.sub(" ", text))) or (text.strip(),)
