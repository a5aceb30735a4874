"""Finds the words that a host wants removed, all of them in one pass over a text.

The words are looked up in a table by first character and length, not by one large pattern. So the time per character does not
depend on the number of words, only on the number of their different lengths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MAX_WORDS = 50_000
MAX_WORD_CHARS = 64


class WordTable:
    """Words by class, prepared for a search. Raises ValueError for a blank or too long word, or for too many words."""

    def __init__(self, words: Mapping[str, Iterable[str]]) -> None:
        self._classes: dict[str, str] = {}
        lengths: dict[str, set[int]] = {}
        for name, listed in words.items():
            for word in listed:
                folded = _fold(word.strip())
                if not folded or len(folded) > MAX_WORD_CHARS:
                    raise ValueError(
                        f"a word of {name!r} has {len(folded)} characters; it may have 1 to {MAX_WORD_CHARS}"
                    )
                self._classes.setdefault(folded, name)
                lengths.setdefault(folded[0], set()).add(len(folded))
                if len(self._classes) > MAX_WORDS:
                    raise ValueError(f"there are more than {MAX_WORDS:,} words")
        self._lengths = {sign: tuple(sorted(found, reverse=True)) for sign, found in lengths.items()}

    def find(self, text: str) -> list[tuple[str, int, int]]:
        """Return (class, begin, end) for each word in `text`, in order. If words overlap, the first one counts; if two begin at
        the same place, the longer one.
        """
        if not self._lengths:
            return []
        folded, found, place = _fold(text), list[tuple[str, int, int]](), 0
        for begin, sign in enumerate(folded):
            lengths = self._lengths.get(sign)
            if lengths is None or begin < place or _is_inside(folded, begin):
                continue
            for length in lengths:
                end = begin + length
                # At the end of a text the slice is shorter, and may be another word.
                name = self._classes.get(folded[begin:end]) if end <= len(folded) else None
                if name is not None and not _is_inside(folded, end):
                    found.append((name, begin, end))
                    place = end
                    break
        return found


def _fold(text: str) -> str:
    """Return a text in lower case, sign by sign: no sign becomes two."""
    lower = text.lower()
    return (
        lower if len(lower) == len(text) else "".join(low if len(low := sign.lower()) == 1 else sign for sign in text)
    )


def _is_inside(text: str, place: int) -> bool:
    """Return whether a place is inside a word; Chinese and Japanese have no spaces, so that it never is there."""
    return 0 < place < len(text) and _is_part(text[place - 1]) and _is_part(text[place])


def _is_part(sign: str) -> bool:
    return sign.isalnum() and sign < "\u2e80"
