"""Removes what models put around an answer (thoughts, code fences), in linear time. Pure.

Small models write down their reasoning before the answer and put a code fence around it. Each character of an answer is
read a fixed number of times, whatever the answer holds.
"""

from __future__ import annotations

import re

_OPENING = re.compile(r"<(think|thinking)>")
_FENCE = re.compile(r"```[a-zA-Z]*")


def strip_thoughts(text: str) -> str:
    """Return the text without `<think>…</think>` and `<thinking>…</thinking>`; an element that is not closed stays."""
    parts: list[str] = []
    at = kept = 0
    unclosed: set[str] = set()
    while (opening := _OPENING.search(text, at)) is not None:
        name, at = opening[1], opening.end()
        end = -1 if name in unclosed else text.find(f"</{name}>", at)
        if end < 0:
            # No later one is closed either, so the text is not searched to its end again.
            unclosed.add(name)
            continue
        parts.append(text[kept : opening.start()])
        at = kept = end + len(f"</{name}>")
    return "".join((*parts, text[kept:]))


def read_fence(text: str, *, own_line: bool = False) -> str | None:
    """Return the content of a code fence that surrounds the whole text, without white space around it; None where there
    is no such fence.

    With `own_line` the closing fence must stand on a line of its own.
    """
    opening = _FENCE.match(text)
    if opening is None or not text.endswith("```") or len(text) < opening.end() + len("```"):
        return None
    inside = text[opening.end() : -len("```")]
    blank = inside[: len(inside) - len(inside.lstrip())]
    return None if own_line and "\n" not in blank else inside.strip()
