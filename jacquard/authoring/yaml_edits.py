"""Changes the value of a YAML file that a person wrote, and keeps its comments and its layout where nothing changed.

Only lines of changed entries are written again. If the result did not mean the wanted value, the whole file would be written
again without comments; `edit_yaml` says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

from filament import PayloadError, dump_yaml, load_yaml
from filament.payload import load_yaml_marked

_Path = tuple[str | int, ...]
_Edit = tuple[int, int, list[str]]
"""(first line, line after the last one, new lines). Lines count from 0."""


class _NotPossibleError(Exception):
    """An entry has no lines of its own."""


def edit_yaml(text: str, value: Any) -> tuple[str, bool]:
    """Return (new text, whether all comments outside of changed entries are kept). The new text means `value`.

    Raises PayloadError if `text` cannot be read, or if `value` cannot be written.
    """
    old, lines = load_yaml_marked(text)
    if is_same(old, value):
        return text, True
    try:
        edited = _Text(text, lines).change(old, value)
        if is_same(load_yaml(edited), value):
            return edited, True
    except (_NotPossibleError, PayloadError):
        pass
    return dump_yaml(value) + "\n", False


def is_same(first: Any, second: Any) -> bool:
    """Return whether two values are the same. The order of keys does not count; 1, 1.0 and true are different values."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(is_same(first[key], second[key]) for key in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(is_same, first, second))
    return type(first) is type(second) and first == second


class _Text:
    """Lines of a YAML file, and the line of each entry."""

    def __init__(self, text: str, lines: Mapping[_Path, int]) -> None:
        self._rows = text.split("\n")
        if self._rows and not self._rows[-1]:
            self._rows.pop()
        self._lines = {path: line - 1 for path, line in lines.items()}

    def change(self, old: Any, new: Any) -> str:
        rows = list(self._rows)
        for start, end, made in sorted(self._find_edits((), old, new), key=lambda each: each[:2], reverse=True):
            rows[start:end] = made
        return "\n".join(rows) + "\n"

    def _find_edits(self, path: _Path, old: Any, new: Any) -> list[_Edit]:
        if is_same(old, new):
            return []
        try:
            if isinstance(old, dict) and isinstance(new, dict) and old and new:
                return self._find_mapping_edits(path, old, new)
            if isinstance(old, list) and isinstance(new, list) and old and new:
                return self._find_list_edits(path, old, new)
        except _NotPossibleError:
            pass
        return [self._replace(path, new)]

    def _find_mapping_edits(self, path: _Path, old: dict[str, Any], new: dict[str, Any]) -> list[_Edit]:
        edits: list[_Edit] = []
        for key, value in old.items():
            here = (*path, key)
            if key in new:
                edits += self._find_edits(here, value, new[key])
            elif "-" in self._lead(here):
                raise _NotPossibleError
            else:
                edits.append((*self._span(here), []))
        added = {key: value for key, value in new.items() if key not in old}
        if added:
            edits.append(self._insert((*path, list(old)[-1]), added))
        return edits

    def _find_list_edits(self, path: _Path, old: list[Any], new: list[Any]) -> list[_Edit]:
        edits: list[_Edit] = []
        before, after = ([_key_of(each) for each in values] for values in (old, new))
        for what, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
            if what == "equal" or (what == "replace" and b - a == d - c):
                for place, other in zip(range(a, b), range(c, d), strict=True):
                    edits += self._find_edits((*path, place), old[place], new[other])
            elif what == "delete":
                for place in range(a, b):
                    self._lead((*path, place))
                    edits.append((*self._span((*path, place)), []))
            elif what == "insert" and a:
                edits.append(self._insert((*path, a - 1), new[c:d]))
            else:
                raise _NotPossibleError
        return edits

    def _replace(self, path: _Path, value: Any) -> _Edit:
        if not path:
            raise _NotPossibleError
        lead = self._lead(path)
        made = dump_yaml([value] if isinstance(path[-1], int) else {path[-1]: value}, len(lead)).split("\n")
        made[0] = lead + made[0][len(lead) :]
        return (*self._span(path), made)

    def _insert(self, after: _Path, value: Any) -> _Edit:
        end = self._span(after)[1]
        return end, end, dump_yaml(value, len(self._lead(after))).split("\n")

    def _lead(self, path: _Path) -> str:
        """Return what is before an entry in its line. Raises _NotPossibleError if another entry is before it."""
        row, step = self._rows[self._lines[path]], path[-1]
        found = re.match(r"( *)(?=- |-$)" if isinstance(step, int) else r"( *(?:- +)?)", row)
        if found is None:
            raise _NotPossibleError
        rest = row[found.end() :]
        if isinstance(step, str) and not rest.startswith((f"{step}:", f'"{step}":', f"'{step}':")):
            raise _NotPossibleError
        return found[1]

    def _span(self, path: _Path) -> tuple[int, int]:
        """Return the first line of an entry, and the line after its last one. Comments before the next entry are not part of it."""
        start, size = self._lines[path], len(path)
        later = [line for other, line in self._lines.items() if line > start and other[:size] != path]
        end = min(later, default=len(self._rows))
        while end > start + 1 and re.match(r"\s*(#|$)", self._rows[end - 1]):
            end -= 1
        return start, end


def _key_of(value: Any) -> str:
    named = value.get("id") if isinstance(value, dict) else None
    return str(named) if named is not None else json.dumps(value, ensure_ascii=False, sort_keys=True)
