"""Estimates where broken JSON ends: counts brackets outside of strings and decodes nothing. Used inside this package
only.
"""

from __future__ import annotations

import re

_SINGLE_OP = re.compile(r"""\[\s*["']|\{\s*["']?op["']?\s*:""", re.ASCII)


def find_likely_end(text: str, start: int, limit: int) -> int:
    """Return the index at which unclosed broken JSON ends, so that prose after it is not swallowed.

    It is the place where its brackets balance; otherwise the last bracket of its paragraph, unless JSON continues after
    it.
    """
    balanced = scan_brackets(text[start:limit])[2]
    if balanced is not None:
        return start + balanced
    paragraph = text.find("\n\n", start, limit)
    stop = limit if paragraph < 0 else paragraph
    last = max(text.rfind("}", start, stop), text.rfind("]", start, stop))
    rest = text[last + 1 : stop].lstrip()
    return stop if last < 0 or rest[:1] in (",", '"', ":", "[", "{") else last + 1


def measure_depth(body: str) -> int:
    """Return the largest number of brackets that are open at once, counting those in strings too."""
    opened = deepest = 0
    for char in body:
        if char in "[{":
            opened += 1
            deepest = max(deepest, opened)
        elif char in "]}":
            opened -= 1
    return deepest


def scan_brackets(body: str) -> tuple[int, bool, int | None]:
    """Return how many brackets are open at the end, whether a string is open, and after which character all were
    closed.
    """
    opened, in_string, escaped = 0, False, False
    for place, char in enumerate(body):
        if in_string:
            in_string, escaped = escaped or char != '"', char == "\\" and not escaped
        elif char == '"':
            in_string = True
        elif char in "[{":
            opened += 1
        elif char in "]}":
            opened -= 1
            if opened == 0:
                return 0, False, place + 1
    return opened, in_string, None


def ends_between_ops(body: str) -> bool:
    """Return whether cut-off JSON ends after a complete op: outside of strings, with no op open."""
    opened, in_string, _ = scan_brackets(body)
    outer = 2 if body.startswith("{") else 1
    allowed = 0 if _SINGLE_OP.match(body) else outer
    return not in_string and opened <= allowed
