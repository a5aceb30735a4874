"""Checks paths from clients before they are sent to the model server. Pure."""

from __future__ import annotations

import re
from unicodedata import normalize
from urllib.parse import unquote

MOST_DECODINGS = 4
"""Maximum number of times that a path is decoded. A path that could be decoded once more is refused."""
_SEPARATORS = re.compile(r"[/\\\u2044\u2215\u2216]")
_REST = re.compile(r"[;?#].*", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WIDE = re.compile(r"%u([0-9A-Fa-f]{4})")


def leads_outside(path: str) -> bool:
    """Return whether any server on the way could understand `path` as a path that leaves the API by a segment such as
    `..`.

    Some servers decode a path several times, take a backslash or a wide form for a slash, or cut a segment at a semicolon.
    Each of these readings is checked. The result is also True if the path is not UTF-8 or has control characters.
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
