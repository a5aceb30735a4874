"""Removes thoughts and code fences that models put around an answer.

Small models often write their reasoning before the answer, and put a code fence around the answer. The time is linear in the
length of the text, whatever the text contains.
"""

from __future__ import annotations

import re

_OPENING = re.compile(r"<(think|thinking)>")
_FENCE = re.compile(r"```[a-zA-Z]*")


def strip_thoughts(text: str) -> str:
    """Return `text` without the elements `<think>…</think>` and `<thinking>…</thinking>`. An element that is not closed
    is kept.
    """
    parts: list[str] = []
    at = kept = 0
    unclosed: set[str] = set()
    while (opening := _OPENING.search(text, at)) is not None:
        name, at = opening[1], opening.end()
        end = -1 if name in unclosed else text.find(f"</{name}>", at)
        if end < 0:
            # No later element is closed either; do not search the rest of the text again.
            unclosed.add(name)
            continue
        parts.append(text[kept : opening.start()])
        at = kept = end + len(f"</{name}>")
    return "".join((*parts, text[kept:]))


def read_fence(text: str, *, own_line: bool = False) -> str | None:
    """Return the stripped content of the code fence (```) around the whole text. Return None if the whole text is not
    in a code fence.

    If `own_line` is true, the closing fence must be on a line by itself.
    """
    opening = _FENCE.match(text)
    if opening is None or not text.endswith("```") or len(text) < opening.end() + len("```"):
        return None
    inside = text[opening.end() : -len("```")]
    blank = inside[: len(inside) - len(inside.lstrip())]
    return None if own_line and "\n" not in blank else inside.strip()
