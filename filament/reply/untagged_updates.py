"""Finds an update whose tag the model forgot: a list of ops, or a code fence around one, at the beginning of a line.

An update is a block of ops (changes of the state). The first characters of an op decide, because no sentence begins with them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from filament.state.changes.ops import Verb

_VERBS = tuple(f'"{verb.value}",' for verb in Verb)
_OBJECTS = tuple(f'{{"op":"{word}"' for word in (*(verb.value for verb in Verb), "add", "replace", "remove"))
_SHAPES = (
    *(f"{lead}{each}" for lead in ("[", "[[") for each in _VERBS),
    *(f"{lead}{each}" for lead in ("", "[") for each in _OBJECTS),
    '{"ops":[',
)
"""Beginnings of updates, written without blanks: one op, a list of ops, or an object with the list."""
_HEAD_CHARS = 64
"""Maximum number of characters, blanks included, in which the beginning of the ops has to be complete."""
_LINE = re.compile(r"(?:\A|\n)[ \t]*(?=[`\[{])")
_FENCE = re.compile(r"```[A-Za-z]{0,16}[ \t]{0,8}\n\s{0,40}")
_HALF_FENCE = re.compile(r"`{1,3}|```[A-Za-z]{1,16}[ \t]{0,8}|```[ \t]{1,8}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """Place of a possible update without a tag."""

    start: int
    """Index at which its code fence begins, or its JSON if there is no fence."""
    json: int
    """Index at which its JSON begins."""
    is_certain: bool
    """True if this is an update, whatever text follows. If False, more text is needed to decide."""


def find_untagged(text: str, *, fresh: bool) -> Candidate | None:
    """Return the first place in `text` that may be an update without a tag, or None if there is none.

    If `fresh`, `text` begins at the beginning of a line.
    """
    for line in _LINE.finditer(text):
        start = line.end()
        if line.start() == 0 and not text.startswith("\n") and not fresh:
            continue
        fence = _FENCE.match(text, start)
        if fence is None and text[start] == "`":
            if _HALF_FENCE.fullmatch(text, start):
                return Candidate(start, len(text), False)
            continue
        json = start if fence is None else fence.end()
        head = text[json : json + _HEAD_CHARS]
        signs = "".join(head.split()).replace("'", '"')
        if signs.startswith(_SHAPES):
            return Candidate(start, json, True)
        if len(head) < _HEAD_CHARS and any(shape.startswith(signs) for shape in _SHAPES):
            return Candidate(start, json, False)
    return None
