"""Splits keys of entries, and the decorators above their texts, by SillyTavern's rules.

A decorator is a line `@@NAME` at the top of an entry's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_FLAGS = "[gimsuy]{0,12}"
_REGEX = re.compile(rf"/(?:[^/]|(?<=\\)/)+/{_FLAGS}")
_REGEX_ITEM = re.compile(rf"/(?:[^/]|(?<=\\)/)+/{_FLAGS}(?=\s*(?:,|\Z))")
_DECORATOR = re.compile(r"@@@?([A-Za-z_]{1,40})")


def is_regex_key(key: str) -> bool:
    """Return whether a key is a regular expression: `/pattern/` with optional flags, and without an unescaped slash in
    the pattern.
    """
    return key.startswith("/") and _REGEX.fullmatch(key) is not None


def split_keys(text: str) -> list[str]:
    """Return the keys in a text with commas. A comma within `/pattern/` does not separate keys.

    Keys are stripped, and empty keys are left out. The time is linear in the length of the text.
    """
    keys = []
    start = 0
    while start < len(text):
        while start < len(text) and (text[start].isspace() or text[start] == ","):
            start += 1
        found = _REGEX_ITEM.match(text, start) if text.startswith("/", start) else None
        end = found.end() if found else text.find(",", start)
        end = len(text) if end < 0 else end
        if key := text[start:end].strip():
            keys.append(key)
        start = end
    return keys


def leading_decorators(content: str) -> Iterator[str]:
    """Yield the names of the decorators at the top of a text, in order. Each is on a line that begins with `@@`.

    If no name follows `@@`, yield an empty name.
    """
    start = 0
    while content.startswith("@@", start):
        found = _DECORATOR.match(content, start)
        yield found[1] if found else ""
        end = content.find("\n", start)
        if end < 0:
            return
        start = end + 1
