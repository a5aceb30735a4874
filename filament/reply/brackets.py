"""Estimates where broken JSON ends, by counting brackets without decoding. Only `filament.reply` uses this module."""

from __future__ import annotations

import re

_SINGLE_OP = re.compile(r"""\[\s*["']|\{\s*["']?op["']?\s*:""", re.ASCII)


def find_likely_end(text: str, start: int, limit: int) -> int:
    """Return the index at which unclosed broken JSON probably ends, so that the prose after it stays prose.

    The JSON begins at `start` and ends before `limit`. If all brackets are closed at some place, the result is the index after
    that place. Otherwise it is the index after the last closing bracket of the paragraph. If JSON continues after that
    bracket, or there is no such bracket, it is the end of the paragraph.
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
    """Return the largest number of brackets in `body` that are open at once. Brackets in strings count, too."""
    opened = deepest = 0
    for char in body:
        if char in "[{":
            opened += 1
            deepest = max(deepest, opened)
        elif char in "]}":
            opened -= 1
    return deepest


def scan_brackets(body: str) -> tuple[int, bool, int | None]:
    """Return (open brackets, in_string, end) after reading `body`.

    `in_string` is True if a string is still open. `end` is the index after which all brackets were closed, or None if the
    brackets were never all closed.
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
    """Return whether the cut-off JSON `body` ends after a complete op (one change of the state), not inside an op or string."""
    opened, in_string, _ = scan_brackets(body)
    outer = 2 if body.startswith("{") else 1
    allowed = 0 if _SINGLE_OP.match(body) else outer
    return not in_string and opened <= allowed
