"""Recognises updates (blocks of ops) that only repeat ops from the prompt. Such updates are not applied.

Texts are compared without blanks, quotes, case, entities and full-width forms, because models change these when they
repeat a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from filament.markup import unescape
from filament.state.changes.ops import Verb

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_LEFT_OUT = "\"'`\\“”„‘’＂＇｀＼\u00ad\u200b\u200c\u200d\u2060\ufeff"
_SAME = {**_FULL_WIDTH, **{ord(char): None for char in _LEFT_OUT}}
_BRACKET = re.compile(r"[\[\]{}]")
_OP = re.compile(rf"\[(?:{'|'.join(verb.value.lower() for verb in Verb)}),|\{{(?:[^{{}}]*,)?op:")
_OP_CHARS = 400


class OpText:
    """A text from the prompt in which ops are searched. The search begins only when there is an update to compare."""

    def __init__(self, text: str) -> None:
        self._raw = text

    def contains(self, update: str, *, broken: bool) -> bool:
        """Return whether this text contains an op of `update`, the JSON of an update.

        If the JSON is `broken`, an occurrence of the whole `update` counts too.
        """
        if not self._raw:
            return False
        bare = _strip_text(update)
        return any(op in self._iterate_ops for op in _ops_in(bare)) or (
            broken and bool(bare) and bare in self._collect_text
        )

    @cached_property
    def _collect_text(self) -> str:
        return _strip_text(self._raw)

    @cached_property
    def _iterate_ops(self) -> frozenset[str]:
        return frozenset(_ops_in(self._collect_text))


def _strip_text(text: str) -> str:
    return "".join(unescape(text).translate(_SAME).split()).lower()


def _ops_in(text: str) -> Iterator[str]:
    """Yield the bracketed parts that look like ops, each cut to its first characters."""
    opened: list[int] = []
    for match in _BRACKET.finditer(text):
        if match.group() in "[{":
            opened.append(match.start())
        elif opened:
            start = opened.pop()
            end = min(match.end(), start + _OP_CHARS)
            if _OP.match(text, start, end):
                yield text[start:end]
