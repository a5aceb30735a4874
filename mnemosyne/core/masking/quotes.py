"""Recognises a text that repeats a sent text, so that errors and log lines about a call do not show it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mnemosyne.core.lazy_patterns import lazy_pattern

_BLOCK = 12
"""Length of the compared blocks. A repeated run of twice this length contains one whole block of the sent text."""

_BLOCK_CJK = 4
_LEAST = 4
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})|\\+[nrtbf]?|[\s'\"]+")
_CJK = lazy_pattern(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]")


class SentTexts:
    """Texts that were sent somewhere. Blanks, quotes and escapes are ignored in comparisons, because formats differ in
    them.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._blocks: dict[int, set[str]] = {}
        for text in map(_flatten, texts):
            if _LEAST <= len(text) < 2 * _BLOCK:
                self._add([text])
            else:
                self._add(_split(text, _BLOCK))
            # Four Latin letters, which a Chinese text may contain too, are a part of too many words.
            if len(text) >= 2 * _BLOCK_CJK:
                self._add(each for each in _split(text, _BLOCK_CJK) if 2 * len(_CJK.findall(each)) >= _BLOCK_CJK)

    def _add(self, blocks: Iterable[str]) -> None:
        for block in blocks:
            self._blocks.setdefault(len(block), set()).add(block)

    def are_repeated_in(self, text: str) -> bool:
        """Return whether `text` contains a run of 24 characters of a sent text (8 in Chinese, Japanese and Korean).

        A sent text of 4 to 23 characters must occur as a whole.
        """
        flat = _flatten(text)
        return any(
            flat[place : place + size] in known
            for size, known in self._blocks.items()
            for place in range(len(flat) - size + 1)
        )


def _split(text: str, size: int) -> Iterator[str]:
    return (text[place : place + size] for place in range(0, len(text) - size + 1, size))


def _flatten(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else "", text)
