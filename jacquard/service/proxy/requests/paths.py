"""Paths from clients that go upstream. Pure."""

from __future__ import annotations

import re
from unicodedata import normalize
from urllib.parse import unquote

MOST_DECODINGS = 4
_SEPARATORS = re.compile(r"[/\\\u2044\u2215\u2216]")
_REST = re.compile(r"[;?#].*", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WIDE = re.compile(r"%u([0-9A-Fa-f]{4})")


def leads_outside(path: str) -> bool:
    """Return whether any server on the way could read a path as one that leaves the interface.

    Servers decode a path several times, take a backslash or a wide form for a slash, and cut a segment at a semicolon; each of
    these readings is checked. A path that is not UTF-8 or has control characters is refused too.
    """
    for _ in range(MOST_DECODINGS):
        if _CONTROL.search(path) or any(map(_is_dots, _SEPARATORS.split(normalize("NFKC", path)))):
            return True
        try:
            decoded = unquote(_WIDE.sub(lambda found: chr(int(found[1], 16)), path), errors="strict")
        except UnicodeDecodeError:
            return True
        if decoded == path:
            return False
        path = decoded
    return True


def _is_dots(segment: str) -> bool:
    name = _REST.sub("", segment)
    return "." in name and not name.strip(". ")
