"""Cuts the preview of a memory to the clauses that contain words of the input. This module must not import a selector
or a model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from jacquard.core.names import is_unspaced
from mnemosyne.retrieval.text.words import word_tokens

CUT = "…"
_PIECE = re.compile(r"[^。！？；.!?;,，\n]+[。！？；.!?;,，\n]*\s*")
_WIDE = 3
"""Number of Latin characters as which one character of a script without spaces counts."""


def excerpt(text: str, words: frozenset[str], limit_chars: int) -> str:
    """Return `text` on one line. If the line is longer than `limit_chars`, return only the clause that contains the most of
    `words`, and as many clauses next to this clause as fit.

    `limit_chars` counts Latin characters; a character of a script without spaces (Chinese) counts as three. `…` marks a cut.
    """
    line = " ".join(text.split())
    if measure_width(line) <= limit_chars:
        return line
    pieces = _PIECE.findall(line) or [line]
    worth = [len(words & frozenset(word_tokens(piece))) for piece in pieces]
    start = end = max(range(len(pieces)), key=lambda place: worth[place])
    used = measure_width(pieces[start])
    while True:
        sides = [place for place in (end + 1, start - 1) if 0 <= place < len(pieces)]
        fitting = [place for place in sides if used + measure_width(pieces[place]) <= limit_chars]
        if not fitting:
            break
        best = max(fitting, key=lambda place: worth[place])
        used += measure_width(pieces[best])
        start, end = min(start, best), max(end, best)
    cut = _narrow_line("".join(pieces[start : end + 1]).strip(), limit_chars)
    return f"{CUT if start else ''}{cut}{CUT if end + 1 < len(pieces) and not cut.endswith(CUT) else ''}"


def _narrow_line(line: str, limit_chars: int) -> str:
    used = 0
    for place, sign in enumerate(line):
        used += measure_width(sign)
        if used > limit_chars:
            return line[:place] + CUT
    return line


def measure_width(text: Sequence[str] | str) -> int:
    """Return the length of a text in Latin characters; a character of a script without spaces (Chinese) counts as three."""
    return sum(_WIDE if is_unspaced(sign) else 1 for sign in text)
