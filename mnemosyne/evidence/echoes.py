"""Removes from a new text the parts that were copied from a prompt, because copies are not new information.

A model repeats its prompt, and a tool may return its input. If such text were ingested, each copy would later be recalled as
further evidence for the same text. The module must not import a store.

A shown text is a text that the prompt contained. A part of the new text is recognised as a copy if WINDOW consecutive characters
of a shown text occur in it (WINDOW_CJK for Chinese and the like). Each run of white space counts as one blank. A shown text
with at most WINDOW characters is recognised only if the new text contains all of it and it is distinctive. Common words, names
and numbers are too short to be recognised, so they stay.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from typing import Any

from mnemosyne.core.json_text import read_json
from mnemosyne.privacy.runs import count_alphanumeric, is_distinctive, weight
from mnemosyne.schema.ingest import ShownText
from mnemosyne.values import dataclass

WINDOW = 48
WINDOW_CJK = 16
ALL_OF_IT = 0.9
"""Share of a text that must be copied for the whole text to count as an echo."""


_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_PLAIN_RUN = re.compile(r"[^\s&]+(?: [^\s&]+)*")
"""Matches text that needs no conversion: words with one blank between them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewText:
    """A text without the parts that the prompt had shown. `text` is empty if nothing is left.

    `sources` are the ids of the shown texts from which parts were copied.
    """

    text: str
    sources: tuple[str, ...] = ()


def without_shown(content: str, shown: Sequence[ShownText]) -> NewText:
    """Return `content` without the parts that were copied from texts in `shown`. Each copied part becomes
    `[recalled:<source>]`.

    JSON stays JSON. If a tenth of `content` or less is new, the whole of it counts as copied, and `text` of the result is
    empty.
    """
    search = _Search(shown)
    if not search.sources or not content.strip():
        return NewText(text=content)
    tree = read_json(content)
    if tree is not None:
        try:
            return _without_in_tree(content, tree, search)
        except RecursionError:
            # JSON that is nested too deep to walk is searched as text.
            search.found.clear()
    spans = search.spans(content)
    if not spans:
        return NewText(text=content)
    total_weight = max(_weigh_text(content), 1)
    echoed = sum(weight(content[begin:end]) for begin, end, _ in spans)
    left = "" if echoed >= ALL_OF_IT * total_weight else _cut_spans(content, spans)
    return NewText(text=left, sources=search.in_order())


def _without_in_tree(content: str, tree: Any, search: _Search) -> NewText:
    done, total_weight, echoed = search.tree(tree)
    if not search.found:
        return NewText(text=content)
    left = "" if echoed >= ALL_OF_IT * total_weight else json.dumps(done, ensure_ascii=False)
    return NewText(text=left, sources=search.in_order())


Found = tuple[int, int, str]


class _Search:
    """Searches for shown texts, and records the found ones."""

    def __init__(self, shown: Sequence[ShownText]) -> None:
        self.sources = [(each.source_id, text) for each in shown if is_distinctive(text := _FlatText(each.text).text)]
        self.found: dict[str, None] = {}
        self._windows: dict[int, dict[str, str]] = {}
        self._whole: list[tuple[str, str]] = []
        for source_id, text in self.sources:
            size = _window_of(text)
            if len(text) <= size:
                self._whole.append((text, source_id))
            else:
                known = self._windows.setdefault(size, {})
                for place in range(len(text) - size + 1):
                    known.setdefault(text[place : place + size], source_id)

    def in_order(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source_id for source_id, _ in self.sources if source_id in self.found))

    def spans(self, content: str) -> list[Found]:
        """Return the shown parts as half-open, disjoint spans of `content`, in order."""
        flat = _FlatText(content)
        hits = sorted(self._hits(flat.text))
        merged: list[Found] = []
        for begin, end, source_id in hits:
            if merged and begin < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2])
            else:
                merged.append((begin, end, source_id))
        for _, _, source_id in merged:
            self.found[source_id] = None
        return [
            (flat.source_span(begin)[0], flat.source_span(end - 1)[1], source_id) for begin, end, source_id in merged
        ]

    def _hits(self, flat: str) -> Iterator[Found]:
        for size, known in self._windows.items():
            for place in range(len(flat) - size + 1):
                source_id = known.get(flat[place : place + size])
                if source_id is not None:
                    yield place, place + size, source_id
        for text, source_id in self._whole:
            place = flat.find(text)
            while place >= 0:
                yield place, place + len(text), source_id
                place = flat.find(text, place + 1)

    def tree(self, tree: Any) -> tuple[Any, int, int]:
        """Return a JSON tree without the shown values, its weight, and the weight of the shown values."""
        if isinstance(tree, str):
            spans = self.spans(tree)
            total_weight = _weigh_text(tree)
            echoed = sum(weight(tree[begin:end]) for begin, end, _ in spans)
            if spans and echoed >= ALL_OF_IT * total_weight:
                return _mark_span(spans[0][2]), total_weight, echoed
            return (_cut_spans(tree, spans) if spans else tree), total_weight, echoed
        if isinstance(tree, Mapping):
            done: dict[str, Any] = {}
            total_weight = echoed = 0
            for key, value in tree.items():
                done[key], more, again = self.tree(value)
                total_weight, echoed = total_weight + more, echoed + again
            return done, total_weight, echoed
        if isinstance(tree, list):
            items = [self.tree(value) for value in tree]
            return [item[0] for item in items], sum(item[1] for item in items), sum(item[2] for item in items)
        return tree, weight(str(tree)), 0


def _weigh_text(text: str) -> int:
    """Return the weight of a text without its tags."""
    return weight(_TAG.sub(" ", text))


def _cut_spans(content: str, spans: Sequence[Found]) -> str:
    parts, at = [], 0
    for begin, end, source_id in spans:
        parts += [content[at:begin], _mark_span(source_id)]
        at = end
    return "".join((*parts, content[at:]))


def _mark_span(source_id: str) -> str:
    return f"[recalled:{source_id}]"


def _window_of(text: str) -> int:
    dense = weight(text) > 1.5 * max(count_alphanumeric(text), 1)
    return WINDOW_CJK if dense else WINDOW


class _FlatText:
    """A text with its XML escapes decoded and its white space collapsed, and where its characters come from."""

    def __init__(self, source: str) -> None:
        self._pieces: list[str] = []
        self._starts: list[int] = []
        self._spans: list[tuple[int, int]] = []
        self._size = place = 0
        while place < len(source):
            if run := _PLAIN_RUN.match(source, place):
                self._add(run[0], place, run.end())
                place = run.end()
                continue
            char, end = _read_character(source, place)
            if not char.isspace():
                self._add(char, place, end)
            elif self._pieces and self._pieces[-1] == " ":
                self._spans[-1] = (self._spans[-1][0], end)
            elif self._pieces:
                self._add(" ", place, end)
            place = end
        if self._pieces and self._pieces[-1] == " ":
            self._pieces.pop()
        self.text = "".join(self._pieces)

    def _add(self, piece: str, begin: int, end: int) -> None:
        self._pieces.append(piece)
        self._starts.append(self._size)
        self._spans.append((begin, end))
        self._size += len(piece)

    def source_span(self, place: int) -> tuple[int, int]:
        """Return the half-open span of the source from which the character at `place` comes."""
        number = bisect_right(self._starts, place) - 1
        begin, end = self._spans[number]
        if len(self._pieces[number]) == 1:
            return begin, end
        begin += place - self._starts[number]
        return begin, begin + 1


def _read_character(source: str, place: int) -> tuple[str, int]:
    """Return the character at `place`, decoded if it is an XML escape, and the end of its source."""
    if source[place] == "&" and (stop := source.find(";", place, place + 12)) > 0:
        decoded = unescape(source[place : stop + 1])
        if len(decoded) == 1:
            return decoded, stop + 1
    return source[place], place + 1
