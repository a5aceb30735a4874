"""Compares two texts line by line, in bounded time. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import unified_diff

MOST_LINES = 2_000
"""Maximum number of lines compared of each text, because the time of a diff grows with the square of the lines."""

_HUNK = re.compile(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


def diff_lines(old: Sequence[str], new: Sequence[str], around: int = 2) -> tuple[str, ...]:
    """Return a unified diff without its heading, with `around` unchanged lines around each change.

    If a text is longer than MOST_LINES lines, only so many lines are compared, beginning shortly before the first
    difference. In this case the last line states how many lines are not compared.
    """
    start = 0
    if max(len(old), len(new)) > MOST_LINES:
        pairs = enumerate(zip(old, new, strict=False))
        first = next((place for place, (one, other) in pairs if one != other), min(len(old), len(new)))
        start = max(0, first - around)
    end = start + MOST_LINES
    lines = [*unified_diff(old[start:end], new[start:end], lineterm="", n=around)][2:]
    left = max(len(old), len(new)) - end
    more = (f"@@ {left} more lines are not compared @@",) if left > 0 and list(old[end:]) != list(new[end:]) else ()
    return (*(_move_hunk(line, start) for line in lines), *more)


def _move_hunk(line: str, start: int) -> str:
    """Return a line of a diff; the heading of a hunk with its places in the whole texts."""
    found = _HUNK.fullmatch(line) if start else None
    if found is None:
        return line
    old, old_size, new, new_size = found.groups(default="")
    return f"@@ -{int(old) + start}{old_size} +{int(new) + start}{new_size} @@"
