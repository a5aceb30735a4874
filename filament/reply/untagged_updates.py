"""Finds an update whose tag the model forgot: a list of ops, or a code fence around one, at the beginning of a line or after a
sentence. The name of the tag as a label may precede the list (`state_update: [...]`).

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
    *(f"[[{each.lower()}" for each in _VERBS),
    *(f"{lead}{each}" for lead in ("", "[") for each in _OBJECTS),
    '{"ops":[',
)
"""Beginnings of updates, written without blanks: one op, a list of ops, or an object with the list."""
_HEAD_CHARS = 64
"""Maximum number of characters, blanks included, in which the beginning of the ops has to be complete."""
_PLACE = re.compile(r"(?:(\n)[ \t]*|[.!?…。！？”’」』）)][ \t]*|[\"*_][ \t]+)(?=[`\[{*_sSvV状])")
"""Place where an update may begin: a line, or the same line after a sentence and the marks that close around it."""
_LABEL = re.compile(
    r"[*_]{0,2}(?:(?:state|variable)[ _]update|状态更新)[*_]{0,2}[ \t]{0,2}[:：][*_]{0,2}\s{0,40}", re.IGNORECASE
)
_LABEL_WORDS = ("stateupdate:", "variableupdate:", "状态更新:")
"""Labels without blanks, underlines and asterisks."""
_LABEL_MARKS = re.compile(r"[*_\s]")
_FENCE = re.compile(r"```[A-Za-z]{0,16}[ \t]{0,8}\n\s{0,40}")
_HALF_FENCE = re.compile(r"`{1,3}|```[A-Za-z]{1,16}[ \t]{0,8}|```[ \t]{1,8}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """Place of a possible update without a tag."""

    start: int
    """Index at which its label or code fence begins, or its JSON if there is neither."""
    json: int
    """Index at which its JSON begins."""
    is_certain: bool
    """True if its JSON begins as that of an update. If False, more text is needed to decide."""
    follows_sentence: bool
    """Whether a sentence precedes it on its line. It is then an update only if nothing follows it in the text."""


def find_untagged(text: str, start: int = 0) -> Candidate | None:
    """Return the first place in `text` that may be an update without a tag, or None if there is none.

    The search begins at `start`. A line begins only after a newline.
    """
    for place in _PLACE.finditer(text, start):
        begin, follows_sentence = place.end(), place[1] is None
        label = _LABEL.match(text, begin)
        at = begin if label is None else label.end()
        fence = None if follows_sentence else _FENCE.match(text, at)
        json = at if fence is None else fence.end()
        head = text[json : json + _HEAD_CHARS]
        signs = "".join(head.split()).replace("'", '"')
        is_certain = signs.startswith(_SHAPES)
        is_half_fence = not follows_sentence and _HALF_FENCE.fullmatch(text, at) is not None
        is_half = len(head) < _HEAD_CHARS and any(shape.startswith(signs) for shape in _SHAPES)
        if is_certain or is_half or is_half_fence or (label is None and _is_half_label(head)):
            return Candidate(begin, json, is_certain, follows_sentence)
    return None


def _is_half_label(head: str) -> bool:
    """Return whether a text that ends with `head` may go on as a label. `head` is shorter than `_HEAD_CHARS` only at the end."""
    bare = _LABEL_MARKS.sub("", head).lower()
    return len(head) < _HEAD_CHARS and any(each.startswith(bare) and each != bare for each in _LABEL_WORDS)
