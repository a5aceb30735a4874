"""Shortens a text that exceeds a token limit by cutting it between two sentences. Pure; no model is called."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from jacquard.core.errors import SummarizerError

MARK = " […]"
"""Mark at the place where a text was cut."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？…])\s*|\n+")
_CHARS_A_TOKEN = 8
"""Maximum characters per token in any language; characters beyond this need not be read."""


def truncate_sentences(text: str, limit_tokens: int, count: Callable[[str], int]) -> str:
    """Return the beginning of `text`: as many complete sentences as fit into `limit_tokens`, followed by MARK.

    A text that fits is returned unchanged. If not even the first sentence fits, this sentence is cut, if possible at a
    blank. `count` returns the tokens of a text. Raises SummarizerError if not even one character fits.
    """
    whole = text.strip()
    if count(whole) <= limit_tokens:
        return whole
    ends = [match.start() for match in _SENTENCE.finditer(whole) if match.start() > 0]
    best = _find_longest(whole, ends, limit_tokens, count)
    if not best:
        best = _find_longest(whole, range(1, len(whole) + 1), limit_tokens, count)
        blank = best.rfind(" ")
        best = best[:blank] if blank > len(best) // 2 else best
    if not best:
        raise SummarizerError(f"Not even the first character of the text fits into {limit_tokens} tokens.")
    return best + MARK


def _find_longest(text: str, ends: Sequence[int], limit_tokens: int, count: Callable[[str], int]) -> str:
    """Return the longest beginning of a text that ends at one of `ends` (ascending) and fits with the mark of the cut; else ''."""
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        if count(text[: ends[middle]].rstrip() + MARK) <= limit_tokens:
            low = middle + 1
        else:
            high = middle
    return text[: ends[low - 1]].rstrip() if low else ""


def keep_last_sentences(text: str, limit_tokens: int, count: Callable[[str], int]) -> tuple[str, int]:
    """Return (end, dropped): the end of `text` that fits into `limit_tokens`, and the number of sentences left out.

    The end consists of MARK and as many of the last sentences as fit. A text that fits is returned unchanged. If not
    even the last sentence fits, this sentence is cut at a blank and counts as left out. `count` returns the tokens of a
    text. Raises SummarizerError if not even one character fits.
    """
    whole = text.strip()
    if count(whole) <= limit_tokens:
        return whole, 0
    lead = MARK.lstrip() + " "

    def find_first(starts: Sequence[int]) -> int | None:
        """Return the first of `starts` (ascending) from which the text fits; None if there is none."""
        low, high = 0, len(starts)
        while low < high:
            middle = (low + high) // 2
            if count(lead + whole[starts[middle] :]) <= limit_tokens:
                high = middle
            else:
                low = middle + 1
        return starts[low] if low < len(starts) else None

    starts = [match.end() for match in _SENTENCE.finditer(whole) if match.end() < len(whole)]
    first = find_first(starts)
    if first is None:
        first = find_first(range(len(whole)))
        if first is None:
            raise SummarizerError(f"Not even the last character of the text fits into {limit_tokens} tokens.")
        blank = whole.find(" ", first)
        first = blank + 1 if 0 <= blank < (first + len(whole)) // 2 else first
    return lead + whole[first:], 1 + sum(start < first for start in starts)


def truncate_with_size(text: str, limit_tokens: int, count: Callable[[str], int]) -> tuple[str, int]:
    """Return (shown, chars): the complete `text` or its first sentences with a mark, and how many characters of `text`
    are shown.

    If not even one character fits, `shown` is only the mark of the cut and `chars` is 0. The time depends on
    `limit_tokens`, not on the length of the text. `count` returns the tokens of a text.
    """
    start = text[: limit_tokens * _CHARS_A_TOKEN]
    if len(start) == len(text) and count(text) <= limit_tokens:
        return text, len(text)
    try:
        kept = truncate_sentences(start, limit_tokens - count(MARK), count).removesuffix(MARK)
    except SummarizerError:
        return MARK.strip(), 0
    return kept + MARK, start.find(kept) + len(kept)
