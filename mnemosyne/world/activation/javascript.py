r"""Translates regular expressions of JavaScript into Python's, for the keys of world info. This module does no I/O.

Some texts are plain in JavaScript but special in Python (`\h`, `{,2}`). They stay plain. Expressions that are valid only in
Python are refused (`(?i)`, `(?>…)`, `a++`).
"""

from __future__ import annotations

import re
from typing import NoReturn

from mnemosyne.core.errors import PatternError

_WORD = "A-Za-z0-9_"
_SPACE = r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_BORDER = f"(?:(?<![{_WORD}])(?=[{_WORD}])|(?<=[{_WORD}])(?![{_WORD}]))"
_NO_BORDER = f"(?:(?<![{_WORD}])(?![{_WORD}])|(?<=[{_WORD}])(?=[{_WORD}]))"
_OUTSIDE = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "w": f"[{_WORD}]",
    "W": f"[^{_WORD}]",
    "s": f"[{_SPACE}]",
    "S": f"[^{_SPACE}]",
    "b": _BORDER,
    "B": _NO_BORDER,
    "/": "/",
}
_INSIDE = {
    "d": "0-9",
    "w": _WORD,
    "s": _SPACE,
    "D": r"\x00-/:-\U0010ffff",
    "W": r"\x00-/:-@\[-\^`{-\U0010ffff",
    "S": r"\x00-\x08\x0e-\x1f!-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff\u3001-\ufefe"
    r"\uff00-\U0010ffff",
    "b": r"\x08",
    "/": "/",
}
_KEPT_ESCAPES = "fnrtvxu"
_DOT = r"[^\n\r\u2028\u2029]"
_UNICODE_ESCAPE = re.compile(r"\\u\{([0-9A-Fa-f]{1,6})\}")
_NAMED = re.compile(r"\\k<([A-Za-z_][A-Za-z0-9_]*)>")
_OF_UNICODE = re.compile(r"\\[pP]\{[^{}]*\}|\\U[0-9a-f]{8}")
_GROUP = re.compile(r"\((?!\?)|\(\?(?:[:=!]|<[=!]|<[A-Za-z_][A-Za-z0-9_]*>)")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??")


def translate_javascript(body: str, flags: str) -> str:
    r"""Return the JavaScript expression `/body/flags` as an expression of Python.

    Classes such as `\w` match ASCII only, `$` matches only the very end, and `.` matches no line end. Raises PatternError
    if the expression is invalid in JavaScript but would be valid in Python. An expression that is invalid in both is
    returned, because Python refuses it later.
    """
    is_unicode = "u" in flags
    if is_unicode:
        body = _UNICODE_ESCAPE.sub(lambda found: f"\\U{int(found[1], 16):08x}", body)
    made: list[str] = []
    place, is_class = 0, False
    while place < len(body):
        if body[place] == "\\":
            piece, size = _escape(body, place, is_class=is_class, is_unicode=is_unicode)
        elif is_class:
            is_class = body[place] != "]"
            piece, size = "\\[" if body[place] == "[" else body[place], 1
        else:
            piece, size = _outside(body, place, flags)
            is_class = piece in ("[", "[^")
        made.append(piece)
        place += size
    options = "".join(flag for flag in "ims" if flag in flags)
    start = "\\A" if "y" in flags else ""
    return f"{f'(?{options})' if options else ''}{start}{''.join(made)}"


def _escape(body: str, place: int, *, is_class: bool, is_unicode: bool) -> tuple[str, int]:
    """Return (translation, length) of an escape: a backslash and the characters that belong to it."""
    letter = body[place + 1 : place + 2]
    table = _INSIDE if is_class else _OUTSIDE
    if letter in table:
        return table[letter], 2
    if not is_class and (found := _NAMED.match(body, place)):
        return f"(?P={found[1]})", len(found[0])
    control = body[place + 2 : place + 3]
    if letter == "c" and control.isascii() and control.isalpha():
        return f"\\x{ord(control) % 32:02x}", 3
    if not (letter.isascii() and letter.isalpha()) or letter in _KEPT_ESCAPES:
        return body[place : place + 2], 2
    if is_unicode:
        found = _OF_UNICODE.match(body, place)
        return (found[0], len(found[0])) if found else _refuse(body)
    return letter, 2


def _outside(body: str, place: int, flags: str) -> tuple[str, int]:
    """Return (translation, length) of the part of an expression at `place`, which is outside of a class `[…]`."""
    char = body[place]
    for written, meant in (("[^]", "(?s:.)"), ("[]", "(?!)"), ("[^", "[^")):
        if body.startswith(written, place):
            return meant, len(written)
    if found := _QUANTIFIER.match(body, place):
        return (found[0], len(found[0])) if not _QUANTIFIER.match(body, found.end()) else _refuse(body)
    if char == "(" and not _GROUP.match(body, place):
        _refuse(body)
    if char == "(" and body.startswith("(?", place):
        return "(?", 2
    if char == "{":
        return ("\\{", 1) if "u" not in flags else _refuse(body)
    if char == "." and "s" not in flags:
        return _DOT, 1
    if char == "$":
        return ("(?=[\\n\\r\\u2028\\u2029]|\\Z)" if "m" in flags else "\\Z"), 1
    return char, 1


def _refuse(body: str) -> NoReturn:
    raise PatternError(body, "JavaScript does not take it for a regular expression")
