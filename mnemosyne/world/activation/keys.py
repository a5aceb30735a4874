"""Finds keys of world info in a text as SillyTavern does: plain texts, whole words, and regular expressions `/…/flags`.

A key is a word or pattern of an entry of world info. If it is found in the chat, the entry's text is put into the prompt.
Only ASCII letters, digits and `_` are part of a word, so that a Chinese key is found inside a Chinese sentence. Regular
expressions are limited in size and time (`mnemosyne.core.regexes`).
"""

from __future__ import annotations

import re
from functools import lru_cache

from mnemosyne.core.errors import PatternError
from mnemosyne.core.regexes import compile_pattern, matches
from mnemosyne.world.activation.javascript import translate_javascript

_PATTERN = re.compile(r"/(.+?)/([gimsuy]*)\Z", re.DOTALL)
_BARE_SLASH = re.compile(r"(?:^|[^\\])/")


@lru_cache(maxsize=4096)
def read_pattern(key: str) -> str | None:
    """Return the Python pattern of a key of the form `/…/flags`.

    Return None if the key is a plain text. A key with an invalid expression or an unescaped slash counts as a plain text.
    """
    if not key.startswith("/") or (found := _PATTERN.match(key)) is None:
        return None
    body, flags = found[1], found[2]
    if _BARE_SLASH.search(body) or len(set(flags)) < len(flags):
        return None
    try:
        pattern = translate_javascript(body, flags)
        compile_pattern(pattern)
    except PatternError:
        return None
    return pattern


def find_key(key: str, text: str, lowered: str, *, case_sensitive: bool, whole_words: bool) -> bool:
    """Return whether `text` contains `key`. `lowered` is `text` in lower case.

    If `key` is a regular expression, `case_sensitive` and `whole_words` have no effect. An expression that takes too long
    counts as not found.
    """
    pattern = read_pattern(key)
    if pattern is not None:
        try:
            return matches(pattern, text, whole=False)
        except PatternError:
            return False
    wanted, searched = (key, text) if case_sensitive else (key.lower(), lowered)
    if not whole_words or len(wanted.split()) > 1 or wanted != wanted.strip():
        return wanted in searched
    return _is_word_in(wanted, searched)


def _is_word_in(word: str, text: str) -> bool:
    place = text.find(word)
    while place >= 0:
        end = place + len(word)
        if not (place and _is_word_char(text[place - 1])) and not (end < len(text) and _is_word_char(text[end])):
            return True
        place = text.find(word, place + 1)
    return False


def _is_word_char(char: str) -> bool:
    return char == "_" or (char.isascii() and char.isalnum())
