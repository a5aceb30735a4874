"""Cuts a text to so many tokens for people and selectors to look at. Calculation only."""

from __future__ import annotations

import unicodedata

from mnemosyne.protocols import TokenEstimator

PREVIEW_TOKENS = 100
_SENTENCE_ENDS = frozenset(".!?。！？…；;\n")
_JOINERS = frozenset("\u200d\ufe0f")
_MARK = "…"


def preview(text: str, estimator: TokenEstimator, limit_tokens: int = PREVIEW_TOKENS) -> str:
    """Return `text`, or its beginning with an ellipsis, in at most `limit_tokens`.

    It is cut after a sentence where one ends in the second half of what fits, else between words, else between characters.
    """
    # A token is seldom more than a dozen characters: what is longer need not be counted whole.
    text = text.strip()
    shown = text[: limit_tokens * 16]
    if len(shown) == len(text) and estimator.estimate(text) <= limit_tokens:
        return text
    low, high = 0, len(shown)
    while low < high:
        middle = (low + high + 1) // 2
        if estimator.estimate(shown[:middle] + _MARK) <= limit_tokens:
            low = middle
        else:
            high = middle - 1
    cut = shown[: _border(shown, low)].rstrip() + _MARK
    return cut if estimator.estimate(cut) <= limit_tokens else ""


def _border(text: str, end: int) -> int:
    half = end // 2
    for place in range(end, half, -1):
        if text[place - 1] in _SENTENCE_ENDS:
            return place
    for place in range(end, max(half, end - 30), -1):
        if text[place - 1].isspace():
            return place
    while end > half and end < len(text) and _joins(text[end]):
        end -= 1
    return end


def _joins(character: str) -> bool:
    return bool(unicodedata.combining(character)) or character in _JOINERS
