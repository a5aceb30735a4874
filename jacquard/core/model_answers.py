"""Removes what models put around an answer (thoughts, code fences), in linear time. Pure.

Small models write down their reasoning before the answer and put a code fence around it. Whatever such an answer
holds, each of its characters is read a fixed number of times.
"""

from __future__ import annotations

import re

_OPENING = re.compile(r"<(think|thinking)>")
_FENCE = re.compile(r"```[a-zA-Z]*")


def without_thoughts(text: str) -> str:
    """Return the text without `<think>…</think>` and `<thinking>…</thinking>`; what is not closed stays."""
    parts: list[str] = []
    at = kept = 0
    unclosed: set[str] = set()
    while (opening := _OPENING.search(text, at)) is not None:
        name, at = opening[1], opening.end()
        end = -1 if name in unclosed else text.find(f"</{name}>", at)
        if end < 0:
            # None behind this one is closed either, so the end of the text is not sought again.
            unclosed.add(name)
            continue
        parts.append(text[kept : opening.start()])
        at = kept = end + len(f"</{name}>")
    return "".join((*parts, text[kept:]))


def in_fence(text: str, *, own_line: bool = False) -> str | None:
    """Return what stands in the code fence that a whole text is, without blanks around it; None where it is none.

    With `own_line` the fence must stand on a line of its own before it.
    """
    opening = _FENCE.match(text)
    if opening is None or not text.endswith("```") or len(text) < opening.end() + len("```"):
        return None
    inside = text[opening.end() : -len("```")]
    blank = inside[: len(inside) - len(inside.lstrip())]
    return None if own_line and "\n" not in blank else inside.strip()
