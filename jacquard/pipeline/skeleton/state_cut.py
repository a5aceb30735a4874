"""Shortens a state (a tree of values) that is too large for its part of the prompt. Its largest parts are shortened first. Pure.

A shortened text shows its beginning and the number of missing characters. A shortened list or mapping shows its first entries and
the number of missing entries. Each field of a mapping gets a share of the characters; only fields that need more than their share
are shortened. Equal states and sizes give equal results. This module must not import a template, a stream or a store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from filament import dump_yaml, escape_text
from filament.state.display import with_own_lists
from jacquard.core.quests import META, is_scalar, read_plain_value
from jacquard.core.receipt import CutPart
from mnemosyne.values import dataclass

SHOWN_LEVELS = 100
"""Maximum nesting of values that YAML can show (`filament.dump_yaml`)."""
KEY_CHARS = 200
"""Maximum length of field names and ids in a shortened state. A field with a longer name or id is not shown."""
LEAST_TEXT_CHARS = 40
_FIELD_CHARS = (160, 60)
"""Minimum characters for each field of a mapping and each entry of a short list. If they do not fit with so many, fewer
fields or entries are shown.
"""
_FEW = 8
"""An entry of a long list is shown completely if it takes at most 1/8 of the list's characters."""
_LINE_CHARS = 8
_NUMBERS = frozenset({int, float, bool, type(None)})
_NOTE_CHARS = 60
_IDENTITY = ("id", "_anchor")
_LISTS = "lists"
_COSTLY = re.compile(
    r"[\x00-\x1f\"&<>\\\x7f-\xa0\u2000-\u200f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff\U00010000-\U0010ffff]"
)
"""Characters that may take more than one when written as YAML inside XML."""

Tokens = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CutWords:
    """Notes that a prompt shows in place of missing parts of the state; `{missing}` and `{total}` are replaced by numbers."""

    text: str
    entries: str
    fields: str
    quests: str


ENGLISH = CutWords(
    text=" … [{missing} of {total} characters not shown]",
    entries="{missing} more entries not shown",
    fields="{missing} more fields not shown",
    quests="{missing} more active quests not shown",
)
CHINESE = CutWords(
    text=" ……［共 {total} 字，其后 {missing} 字未显示］",
    entries="还有 {missing} 项未显示",
    fields="还有 {missing} 个字段未显示",
    quests="还有 {missing} 个进行中的任务未显示",
)


def find_cut_words(locale: str) -> CutWords:
    """Return the notes in the language of `locale`."""
    return CHINESE if locale.lower().startswith("zh") else ENGLISH


def count_shown_chars(node: Any, most: int, depth: int = 0, *, with_rules: bool = False) -> int:
    """Return about how many characters the part `node` of a state takes in a prompt. Return `most` + 1 if they are more
    than `most`.

    `depth` is the number of levels above `node`. A value nested too deeply to be shown counts as more than `most`. The
    author's rules (`$meta`) are not shown in a prompt. They are counted only if `with_rules` is true. Counting stops
    when `most` is exceeded.
    """
    if isinstance(node, str):
        return min(_count_text_chars(node, most, depth), most + 1)
    if is_scalar(node):
        return min(len(str(node)) + 4, most + 1)
    if depth >= SHOWN_LEVELS and node:
        return most + 1
    total = 4
    is_object = type(node) is dict or isinstance(node, Mapping)
    pairs = node.items() if is_object else [("", each) for each in node]
    for key, value in pairs:
        if key == META and not with_rules:
            continue
        total += 2 * depth + _LINE_CHARS + (_count_text_chars(key, most) if key else 0)
        if total <= most:
            # Most values are short, and a call for each of them would cost as much as the rest.
            kind = type(value)
            if kind is str and len(value) <= most - total and _COSTLY.search(value) is None:
                total += len(value) + 2
            elif kind in _NUMBERS:
                total += len(str(value)) + 4
            else:
                total += count_shown_chars(value, most - total, depth + 1, with_rules=with_rules)
        if total > most:
            return most + 1
    return total


def _count_text_chars(text: str, most: int, depth: int = 0) -> int:
    if len(text) > most or _COSTLY.search(text) is None:
        return len(text) + 2
    return len(escape_text(dump_yaml(text))) + 2 + 2 * depth * text.count("\n")


def reduce_rules(tree: Any) -> Any:
    """Return `tree` with the author's rules (`$meta`) reduced to the names of the fields that are lists.

    Only this part of the rules has an effect on the form in which a prompt shows the state.
    """
    return _reduce_rules(with_own_lists(tree))


def _reduce_rules(node: Any) -> Any:
    if isinstance(node, Mapping):
        kept: dict[str, Any] = {key: _reduce_rules(value) for key, value in node.items() if key != META}
        meta = node.get(META)
        lists = meta.get(_LISTS) if isinstance(meta, Mapping) else None
        if isinstance(lists, list | tuple) and (own := [name for name in lists if name in kept]):
            return {META: {_LISTS: own}, **kept}
        return kept
    return [_reduce_rules(each) for each in node] if isinstance(node, list | tuple) else node


def divide_chars(wanted: Sequence[int], chars: int) -> list[int]:
    """Divide `chars` characters among several parts of a text. `wanted` contains the number of characters of each part.
    Return the number of characters that each part may keep, in the same order.

    The shortest parts come first. Each part may keep the smaller one of two numbers: its own number, and an equal share
    of the characters that are left.
    """
    given = [0] * len(wanted)
    left = max(0, chars)
    order = sorted(range(len(wanted)), key=lambda place: (wanted[place], place))
    for rank, place in enumerate(order):
        given[place] = min(wanted[place], left // (len(order) - rank))
        left -= given[place]
    return given


class StateCutter:
    """Shortens parts of a state. `cuts` lists all shortened parts in reading order.

    The author's rules (`$meta`) are kept; see `reduce_rules`.
    """

    def __init__(self, words: CutWords) -> None:
        self._words = words
        self.cuts: list[CutPart] = []

    def cut(self, node: Any, chars: int, path: Tokens, depth: int = 0) -> Any:
        """Return `node` shortened to about `chars` characters. A shorter `node` is returned unchanged.

        A shortened list or mapping contains a note that states how much is missing. `path` is the place of `node` in
        the state, and `depth` is the number of levels above `node`.
        """
        kept, note = self.cut_with_note(node, chars, path, depth)
        if not note:
            return kept
        if isinstance(kept, Mapping):
            return {**kept, _find_unused_key("…", kept): note}
        return [*kept, {"…": note}]

    def cut_with_note(self, node: Any, chars: int, path: Tokens, depth: int = 0) -> tuple[Any, str]:
        """Return (node, note): the shortened `node`, and the note that states how many of its entries or fields are
        missing ('' if none are missing). The parameters are those of `cut`.
        """
        if count_shown_chars(node, chars, depth) <= chars:
            return node, ""
        if isinstance(node, str):
            return self._cut_text(node, chars, path, depth), ""
        if is_scalar(node):
            return node, ""
        if depth >= SHOWN_LEVELS:
            self._add_cut(node, path, _unit(node), 0, len(node))
            return f"… {self._describe_missing(node, len(node))}", ""
        if _is_pair(node):
            given = divide_chars([count_shown_chars(each, chars, depth) for each in node], chars - _LINE_CHARS)
            return [self.cut(each, given[at], (*path, str(at)), depth) for at, each in enumerate(node)], ""
        if isinstance(node, Mapping):
            return self._cut_mapping(node, chars, path, depth)
        return self._cut_list(node, chars, path, depth)

    def _cut_text(self, text: str, chars: int, path: Tokens, depth: int) -> str:
        mark = self._words.text.format(missing=f"{len(text):,}", total=f"{len(text):,}")
        keep = max(LEAST_TEXT_CHARS, chars - len(mark) - 2)
        if (cost := _count_text_chars(text[:keep], keep, depth)) > keep + 2:
            keep = max(LEAST_TEXT_CHARS, keep * keep // cost)
        if keep + len(mark) >= len(text):
            return text
        head = text[:keep].rstrip()
        self._add_cut(text, path, "characters", len(head), len(text))
        return head + self._words.text.format(missing=f"{len(text) - len(head):,}", total=f"{len(text):,}")

    def _cut_mapping(self, node: Mapping[str, Any], chars: int, path: Tokens, depth: int) -> tuple[dict[str, Any], str]:
        fields = [key for key in node if key != META]
        usable = [key for key in fields if len(key) <= KEY_CHARS and not _is_long_id(key, node[key])]
        order = sorted(usable, key=lambda key: key not in _IDENTITY)  # Ids first, the rest in the stored order.
        frame = [2 * depth + _LINE_CHARS + _count_text_chars(key, KEY_CHARS) for key in order]
        kept, given = _allot_chars(
            [node[key] for key in order], frame, chars, depth, has_fields=True, whole=len(usable) == len(fields)
        )
        shown = {key: given[at] for at, key in enumerate(order[:kept])}
        result: dict[str, Any] = {}
        if META in node:
            result[META] = node[META]
        for key in fields:
            if key in shown:
                result[key], note = self.cut_with_note(node[key], shown[key], (*path, key), depth + 1)
                if note:
                    result[_find_unused_key(f"… {key}", node)] = note
        return result, self._note_rest(node, path, kept, len(fields))

    def _cut_list(self, node: Sequence[Any], chars: int, path: Tokens, depth: int) -> tuple[list[Any], str]:
        kept, given = _allot_chars(node, [2 * depth + _LINE_CHARS] * len(node), chars, depth, has_fields=False)
        if kept == 2 and _is_pair(node[:2]):
            kept = 1  # A list of two entries would be read as a value with its description.
        result = [self.cut(node[at], given[at], (*path, str(at)), depth + 1) for at in range(kept)]
        return result, self._note_rest(node, path, kept, len(node))

    def _note_rest(self, node: Any, path: Tokens, kept: int, total: int) -> str:
        if kept == total:
            return ""
        self._add_cut(node, path, _unit(node), kept, total)
        return self._describe_missing(node, total - kept)

    def _describe_missing(self, node: Any, missing: int) -> str:
        words = self._words.fields if isinstance(node, Mapping) else self._words.entries
        return words.format(missing=f"{missing:,}")

    def _add_cut(self, node: Any, path: Tokens, unit: str, shown: int, total: int) -> None:
        self.cuts.append(
            CutPart(path=format_pointer(path), unit=unit, shown=shown, total=total, chars=_count_json_chars(node))
        )


def format_pointer(path: Tokens) -> str:
    """Return the JSON Pointer of `path`."""
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in path)


def restore_paths(cuts: Sequence[CutPart], places: Mapping[str, str]) -> Iterator[CutPart]:
    """Yield the shortened parts `cuts` with their paths changed to paths in the original state.

    `places` maps the beginning of a path in the shortened tree to the beginning of the same path in the original state.
    """
    for cut in cuts:
        steps = cut.path.split("/")
        longest = next((n for n in range(len(steps), 0, -1) if "/".join(steps[:n]) in places), 0)
        yield replace(cut, path="/".join([places["/".join(steps[:longest])], *steps[longest:]])) if longest else cut


def _allot_chars(
    values: Sequence[Any], frame: Sequence[int], chars: int, depth: int, *, has_fields: bool, whole: bool = True
) -> tuple[int, list[int]]:
    """Return how many of the values are shown, from the first on, and the characters of each.

    `frame` is the cost of each besides itself. `has_fields`: the values are fields of a mapping; as many as possible are shown,
    each a little. `whole`: no note is needed if all of them are shown.
    """
    # Counted only as far as values may fit, because a list of a large state can have very many.
    costs: list[int] = []

    def count_fitting(least: int, most: int) -> int:
        """Return how many values fit if each takes its own length, or `least` if it is longer."""
        used = 0
        for place, value in enumerate(values):
            if place == len(costs):
                costs.append(count_shown_chars(value, chars, depth + 1))
            used += frame[place] + min(costs[place], least)
            if used > most:
                return place
        return len(values)

    kept = 0
    if has_fields or len(values) <= _FEW:
        for least in _FIELD_CHARS:
            kept = count_fitting(least, chars if whole else chars - _NOTE_CHARS)
            if kept == len(values):
                break
    if kept < len(values):
        kept = count_fitting(max(_FIELD_CHARS[-1], chars // _FEW), chars - _NOTE_CHARS)
    note = 0 if whole and kept == len(values) else _NOTE_CHARS
    return kept, divide_chars(costs[:kept], chars - sum(frame[:kept]) - note)


def _is_pair(entries: Any) -> bool:
    return read_plain_value(entries) is not entries


def _is_long_id(key: str, value: Any) -> bool:
    return key in _IDENTITY and isinstance(value, str) and len(value) > KEY_CHARS


def _unit(node: Any) -> str:
    return "fields" if isinstance(node, Mapping) else "entries"


def _find_unused_key(key: str, node: Mapping[str, Any]) -> str:
    while key in node:
        key = f"…{key}"
    return key


def _count_json_chars(node: Any) -> int:
    return len(json.dumps(node, ensure_ascii=False, separators=(",", ":"), default=str))
