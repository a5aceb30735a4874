"""Splits a text into sentences and keeps quoted speech within the sentence that quotes it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

_PAIRS = {"「": "」", "『": "』", "“": "”", "«": "»", '"': '"'}
_ALWAYS = frozenset("!?。！？")
_AT_END = frozenset(".…")
_AFTER = frozenset("\"'”’」』»）)")
_BLANKS = re.compile(r"\s*")


def split_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a text, in order. A quotation stays in the sentence that quotes it.

    If a sentence begins with speech, it goes on after the speech, unless a capital letter, another quotation or a new
    line follows.
    """
    found: list[str] = []
    for line in text.splitlines():
        start, closing, is_led = 0, "", False
        last_closing = {sign: line.rfind(closing_sign) for sign, closing_sign in _PAIRS.items()}
        for place, sign in enumerate(line):
            if closing:
                if sign != closing:
                    continue
                closing = ""
                ended = line[place - 1] in _ALWAYS | _AT_END and _is_over(line, place + 1, is_led=is_led)
            elif last_closing.get(sign, -1) > place:
                closing, is_led = _PAIRS[sign], _skip_blanks(line, start) < place
                continue
            else:
                ended = sign in _ALWAYS or (sign in _AT_END and _is_edge(line, place + 1))
                ended = ended and line[place + 1 : place + 2] not in (*_ALWAYS, *_AT_END, *_AFTER)
            if ended:
                found.append(line[start : place + 1])
                start = place + 1
        found.append(line[start:])
    return tuple(sentence.strip() for sentence in found if any(sign.isalnum() for sign in sentence))


def is_question(sentence: str) -> bool:
    """Return whether a sentence is a question."""
    return sentence.rstrip("\"'”’」』»）) ").endswith(("?", "？"))


def join_sentences(sentences: Sequence[str]) -> str:
    """Return sentences as one line, with blanks between them. No blank is added after a character that is not ASCII,
    such as a Chinese one.
    """
    line = ""
    for sentence in sentences:
        words = " ".join(sentence.split())
        line += f" {words}" if line and line[-1].isascii() else words
    return line


def _is_edge(line: str, place: int) -> bool:
    return place >= len(line) or line[place].isspace() or line[place] in _AFTER


def _is_over(line: str, place: int, *, is_led: bool) -> bool:
    """Return whether a sentence ends with the speech before `place`; `is_led`: words precede the speech."""
    if is_led:
        return True
    next_place = _skip_blanks(line, place)
    follower = line[next_place : next_place + 1]
    return not follower or follower.isupper() or follower in _PAIRS


def _skip_blanks(line: str, place: int) -> int:
    """Return the place of the next non-blank character, or the end."""
    found = _BLANKS.match(line, place)
    return place if found is None else found.end()
