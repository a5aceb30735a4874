"""Finds out whether a client's messages show a text already, so that the text is not added again. The time is about
linear in the length of the messages.

Texts are compared word by word, without regard to case, markup, punctuation, width forms and white space. A text is shown
if the messages contain nearly all of its sentences, at any place. A sentence does not count if it is found only as part of
a word, or as part of a longer clause in a language without spaces.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from filament.boundaries import split_content
from mnemosyne.privacy.forget import TEXT_CACHES

NEARLY_ALL = 0.9
"""Minimum share of a text, in characters, that must be shown."""
LEAST_BYTES = 12
"""Minimum bytes of a text that can count as shown. Shorter texts, like a name or a number, occur in other contexts too."""

_CACHED_CHARS = 20_000
_MARKS = string.punctuation + "，。！？；：、（）《》〈〉「」『』【】〔〕“”‘’„«»…—–·～"
_BLANKS = str.maketrans(_MARKS, " " * len(_MARKS))
_SENTENCES = re.compile(r"[.!?。！？;；\n]+")
_LABEL = re.compile(r"\A\s*[\w -]{1,40}[:：]\s*(?=\S)")
_BETWEEN = " | "
"""Separator of messages. No text in word form contains this separator."""


class ShownTexts:
    """Texts of a client's messages. They are prepared once, so that many blocks can be searched in them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._words = _BETWEEN.join(_read_words(text) for text in texts)

    def shows(self, content: str, title: str = "", *, has_labels: bool = False) -> bool:
        """Return whether the messages show nearly all of `content`, the text of a block. Tags and a line that equals
        `title` are not counted.

        If `has_labels` is true, the names of fields (`name: …`) are not counted either.
        """
        texts = (piece.text for piece in split_content(content) if not piece.is_tag)
        text = "\n".join(each for each in texts if each.strip() != title)
        found = ((each, _to_words(each)) for each in _SENTENCES.split(text))
        sentences = [(each, words) for each, words in found if words.strip()]
        if sum(len(words.strip().encode("utf-8", "replace")) for _, words in sentences) < LEAST_BYTES:
            return False
        room = sum(len(words) for _, words in sentences) * (1 - NEARLY_ALL)
        for sentence, words in sentences:
            label = _LABEL.match(sentence) if has_labels else None
            if words in self._words or (label is not None and _to_words(sentence[label.end() :]) in self._words):
                continue
            room -= len(words)
            if room < 0:
                return False
        return True


def _read_words(text: str) -> str:
    return _read_cached(text) if len(text) <= _CACHED_CHARS else _to_words(text)


def _to_words(text: str) -> str:
    """Return the words of a text, each between blanks."""
    words = unicodedata.normalize("NFKC", text).casefold().translate(_BLANKS).split()
    return f" {' '.join(words)} "


_read_cached = lru_cache(maxsize=2_000)(_to_words)
TEXT_CACHES.append(_read_cached.cache_clear)
"""Most messages of a call were in the previous call."""
