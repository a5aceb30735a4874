"""Shortens a text to a number of tokens, as a preview for people and for the model that selects memories."""

from __future__ import annotations

import unicodedata

from mnemosyne.protocols import TokenEstimator

PREVIEW_TOKENS = 100
_TOKEN_CHARS = 5
_SENTENCE_ENDS = frozenset(".!?。！？…；;\n")
_JOINERS = frozenset("\u200d\ufe0f")
_MARK = "…"


def preview(text: str, estimator: TokenEstimator, limit_tokens: int = PREVIEW_TOKENS) -> str:
    """Return `text`, or its beginning with an ellipsis, in at most `limit_tokens` tokens.

    The text is cut after a sentence if a sentence ends in the second half of the part that fits. Otherwise the text is cut between
    words, or else between characters. The place of the cut is estimated from the tokens per character, so the result may be
    shorter than necessary. Only the first five characters per token are read, so that a long text takes no longer than a
    short one.
    """
    text = text.strip()
    end = min(len(text), limit_tokens * _TOKEN_CHARS)
    if end == len(text) and estimator.estimate(text) <= limit_tokens:
        return text
    while end > 0:
        cut = text[: _border(text, end)].rstrip() + _MARK
        cost = estimator.estimate(cut)
        if cost <= limit_tokens:
            return cut
        end = min(end - 1, len(cut) * limit_tokens // cost)
    return ""


def preview_window(text: str, limit_tokens: int = PREVIEW_TOKENS) -> str:
    """Return the beginning of a text that is enough to compute its preview."""
    return text.strip()[: limit_tokens * _TOKEN_CHARS + 1]


def _border(text: str, end: int) -> int:
    half = end // 2
    for place in range(end, half, -1):
        if text[place - 1] in _SENTENCE_ENDS:
            return place
    for place in range(end, max(half, end - 30), -1):
        if text[place - 1].isspace():
            return place
    while end > half and end < len(text) and _is_word_character(text[end]):
        end -= 1
    return end


def _is_word_character(character: str) -> bool:
    return bool(unicodedata.combining(character)) or character in _JOINERS
