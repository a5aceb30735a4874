"""Brings text into a Unicode normal form in linear time.

`unicodedata.normalize` sorts each run of combining marks by insertion, so it needs many seconds for a letter with
50,000 marks. Here a stable sort first puts long runs in canonical order (Unicode Standard, section 3.11, D109). The
result equals that of `unicodedata.normalize` for every text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Literal

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]

LONG_RUN = 30
"""Runs of more marks than this are sorted here. The number is the longest run of the Stream-Safe Text Format (UAX #15)."""


def normal_form(form: Form, text: str) -> str:
    """Return the same text as `unicodedata.normalize(form, text)`."""
    if text.isascii():
        return text
    return unicodedata.normalize(form, _sort_marks("NFKD" if "K" in form else "NFD", text))


def _sort_marks(form: Form, text: str) -> str:
    """Return a text in which long runs of marks are decomposed and in canonical order."""
    parts: list[str] = []
    at = 0
    for begin, end in _long_runs(form, text):
        marks = "".join(unicodedata.normalize(form, char) for char in text[begin:end])
        parts += [text[at:begin], "".join(sorted(marks, key=unicodedata.combining))]
        at = end
    return "".join((*parts, text[at:])) if parts else text


def _long_runs(form: Form, text: str) -> Iterator[tuple[int, int]]:
    """Yield the half-open spans of the runs of more than LONG_RUN marks, in order."""
    end = 0
    # Such a run covers one of these places, so most characters need not be examined.
    for place in range(LONG_RUN, len(text), LONG_RUN + 1):
        if place < end or not _is_mark(form, text[place]):
            continue
        begin, end = place, place + 1
        while begin > 0 and _is_mark(form, text[begin - 1]):
            begin -= 1
        while end < len(text) and _is_mark(form, text[end]):
            end += 1
        if end - begin > LONG_RUN:
            yield begin, end


def _is_mark(form: Form, char: str) -> bool:
    """Return whether a character consists of combining marks only, once it is decomposed."""
    if unicodedata.combining(char):
        return True
    # A few vowel signs have no class of their own and decompose into marks that have one.
    return unicodedata.decomposition(char) != "" and all(map(unicodedata.combining, unicodedata.normalize(form, char)))
