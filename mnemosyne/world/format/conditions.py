"""Parses conditions on the state in their short text form, such as `hero.health > 20`. Nothing is run as code.

The form is `path op value`. The value is a number, true, false, null, a quoted text, a list in brackets, or bare words.
"""

from __future__ import annotations

import re
from typing import Any

from mnemosyne.schema.memory import Comparison, Condition

_SHORT = re.compile(
    r"\s*(?P<path>[^\s=!<>]+)\s*(?P<op>==|!=|<=|>=|<|>|=|(?<=\s)in(?=[\s\[])|(?<=\s)contains(?=\s))\s*(?P<value>\S.*?)\s*",
    re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?(?:\d{1,18}|\d{0,18}\.\d{1,18})")
_WORDS = {"true": True, "false": False, "null": None}
_MEMBER = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^,"'\[\]]+?)\s*(,|$)""", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t"}

MAX_CHARS = 1_000


def parse_condition(text: str) -> Condition:
    """Return the condition in `text`, such as `hero.health > 20`.

    Raises ValueError if the text cannot be read. The message of the error gives the reason.
    """
    if len(text) > MAX_CHARS:
        raise ValueError(f"is longer than {MAX_CHARS:,} characters")
    match = _SHORT.fullmatch(text)
    if match is None:
        raise ValueError("is not a condition; write 'path op value', for example 'hero.health > 20'")
    if match["op"] == "=":
        raise ValueError("compares with a single '='; write '=='")
    return Condition(path=match["path"], op=Comparison(match["op"]), value=_value(match["value"]))


def _value(text: str) -> Any:
    if text.startswith("["):
        if not text.endswith("]"):
            raise ValueError("opens a list with '[' that ']' does not close")
        return _members(text[1:-1])
    return _scalar(text)


def _members(text: str) -> list[Any]:
    members: list[Any] = []
    at = 0
    while text[at:].strip():
        match = _MEMBER.match(text, at)
        if match is None:
            raise ValueError(
                f"has a list that cannot be read at {text[at : at + 20]!r}; quote texts that hold , [ or ]"
            )
        members.append(_scalar(match[1]))
        at = match.end()
    return members


def _scalar(text: str) -> Any:
    if text[0] in "\"'":
        if len(text) < 2 or text[-1] != text[0]:
            raise ValueError(f"opens a text with {text[0]} that is not closed")
        inner = text[1:-1]
        if text[0] == "'":
            return inner
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), inner, flags=re.DOTALL)
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    if re.search(r"[=!<>\[\]{}\"']", text):
        raise ValueError(f"has a value that cannot be read ({text[:40]}); put texts in quotes, one comparison each")
    return text
