"""Finds keys of world info in a text as JavaScript does: plain texts, whole words, and regular expressions `/…/flags`.

Word borders are those of ASCII letters, so that a Chinese key is found inside a Chinese sentence. Expressions are limited in size
and time (`mnemosyne.core.regexes`).
"""

from __future__ import annotations

import re
from functools import lru_cache

from mnemosyne.core.errors import PatternError
from mnemosyne.core.regexes import compile_pattern, matches

_PATTERN = re.compile(r"/(.+?)/([gimsuy]*)\Z", re.DOTALL)
_BARE_SLASH = re.compile(r"(?:^|[^\\])/")
_WORD = "A-Za-z0-9_"
_BORDER = f"(?:(?<![{_WORD}])(?=[{_WORD}])|(?<=[{_WORD}])(?![{_WORD}]))"
_NO_BORDER = f"(?:(?<![{_WORD}])(?![{_WORD}])|(?<=[{_WORD}])(?=[{_WORD}]))"
_OUTSIDE = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "w": f"[{_WORD}]",
    "W": f"[^{_WORD}]",
    "b": _BORDER,
    "B": _NO_BORDER,
    "/": "/",
}
_INSIDE = {
    "d": "0-9",
    "w": _WORD,
    "D": r"\x00-/:-\U0010ffff",
    "W": r"\x00-/:-@\[-\^`{-\U0010ffff",
    "b": r"\x08",
    "/": "/",
}
_DOT = r"[^\n\r\u2028\u2029]"
_UNICODE_ESCAPE = re.compile(r"\\u\{([0-9A-Fa-f]{1,6})\}")
_NAMED = re.compile(r"\\k<([A-Za-z_][A-Za-z0-9_]*)>")


@lru_cache(maxsize=4096)
def read_pattern(key: str) -> str | None:
    """Return the Python pattern of a key in the form `/…/flags`; None for a key that is a plain text.

    An invalid expression is a plain text, and so is one with a slash that is not escaped.
    """
    if not key.startswith("/") or (found := _PATTERN.match(key)) is None:
        return None
    body, flags = found[1], found[2]
    if _BARE_SLASH.search(body) or len(set(flags)) < len(flags):
        return None
    pattern = _translate(body, flags)
    try:
        compile_pattern(pattern)
    except PatternError:
        return None
    return pattern


def find_key(key: str, text: str, lowered: str, *, case_sensitive: bool, whole_words: bool) -> bool:
    """Return whether a key is in a text; `lowered` is the text in small letters. An expression ignores both options.

    An expression that takes too long is not found.
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


def _translate(body: str, flags: str) -> str:
    """Return a JavaScript expression as one of Python: classes of ASCII, `$` at the very end, `.` without line ends."""
    body = _UNICODE_ESCAPE.sub(lambda found: f"\\U{int(found[1], 16):08x}", body) if "u" in flags else body
    body = _NAMED.sub(r"(?P=\1)", body)
    made: list[str] = []
    place, is_class = 0, False
    while place < len(body):
        char = body[place]
        if char == "\\" and place + 1 < len(body):
            made.append((_INSIDE if is_class else _OUTSIDE).get(body[place + 1], body[place : place + 2]))
            place += 2
            continue
        if is_class:
            is_class = char != "]"
            made.append("\\[" if char == "[" else char)
        elif body.startswith("[^]", place):
            made.append("(?s:.)")
            place += 2
        elif body.startswith("[]", place):
            made.append("(?!)")
            place += 1
        elif char == "[":
            is_class = True
            made.append(char)
            if body.startswith("^", place + 1):
                made.append("^")
                place += 1
        elif char == "." and "s" not in flags:
            made.append(_DOT)
        elif char == "$":
            made.append("(?=[\\n\\r\\u2028\\u2029]|\\Z)" if "m" in flags else "\\Z")
        else:
            made.append(char)
        place += 1
    options = "".join(flag for flag in "ims" if flag in flags)
    start = "\\A" if "y" in flags else ""
    return f"{f'(?{options})' if options else ''}{start}{''.join(made)}"
