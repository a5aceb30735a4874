"""Differences between two recordings: by file and by the path of the key, so that a reader sees which forms a change touched."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

_MISSING = object()
_SHOWN_CHARS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One value that is another: `line` of `file`, the path of its key, the values before and after, shortened."""

    file: str
    line: int
    key: str
    before: str
    after: str

    @property
    def form(self) -> str:
        """The kind of file and the key without places: the same for all values of one form."""
        key = re.sub(r"\[\d+\]", "[]", self.key)
        return f"{Path(self.file).name} {key or '(whole)'}"


@dataclass(kw_only=True, slots=True)
class Comparison:
    """All differences by form, and the first ones in full."""

    forms: Counter[str] = field(default_factory=Counter)
    files: dict[str, set[str]] = field(default_factory=dict)
    shown: list[Difference] = field(default_factory=list)

    def add(self, found: Difference, limit: int) -> None:
        """Count a difference; keep it if few of its form were seen."""
        self.forms[found.form] += 1
        self.files.setdefault(found.form, set()).add(found.file)
        if self.forms[found.form] <= limit:
            self.shown.append(found)


def compare_folders(before: Path, after: Path, names: list[str], *, only: str = "*", limit: int = 3) -> Comparison:
    """Compare the files of some folders whose name fits `only`; keep `limit` differences of each form in full."""
    found = Comparison()
    for name in names:
        files = {
            path.relative_to(root) for root in (before, after) for path in (root / name).rglob(only) if path.is_file()
        }
        for file in sorted(files):
            for each in compare_files(before / file, after / file, str(file)):
                found.add(each, limit)
    return found


def compare_files(before: Path, after: Path, name: str) -> Iterator[Difference]:
    """Yield the differences of two files of JSON lines, in order."""
    if not (before.exists() and after.exists()):
        yield Difference(file=name, line=0, key="", before=_seen(before.exists()), after=_seen(after.exists()))
        return
    one, two = before.read_bytes(), after.read_bytes()
    if one == two:
        return
    lines = zip_longest(one.decode().splitlines(), two.decode().splitlines())
    for number, (old, new) in enumerate(lines, 1):
        if old == new:
            continue
        rows = [_MISSING if line is None else json.loads(line) for line in (old, new)]
        seen = list(_walk(*rows, "")) or [("(order of keys)", old, new)]
        for key, was, now in seen:
            yield Difference(file=name, line=number, key=key, **_shorten(was, now))


def _walk(one: Any, two: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(two, dict):
        for name in [*one, *(each for each in two if each not in one)]:
            yield from _walk(one.get(name, _MISSING), two.get(name, _MISSING), f"{key}.{name}" if key else str(name))
    elif isinstance(one, list) and isinstance(two, list):
        for place, (was, now) in enumerate(zip_longest(one, two, fillvalue=_MISSING)):
            yield from _walk(was, now, f"{key}[{place}]")
    elif type(one) is not type(two) or one != two:
        yield key, one, two


def _shorten(one: Any, two: Any) -> dict[str, str]:
    """Return both values as short texts; of two texts the part from a little before where they part."""
    texts = [each if isinstance(each, str) else _write_value(each) for each in (one, two)]
    place = next((place for place, pair in enumerate(zip_longest(*texts)) if pair[0] != pair[1]), 0)
    start = max(0, place - 20) if min(map(len, texts)) > _SHOWN_CHARS else 0
    return {
        side: ("…" if start else "")
        + text[start : start + _SHOWN_CHARS]
        + ("…" if start + _SHOWN_CHARS < len(text) else "")
        for side, text in zip(("before", "after"), texts, strict=True)
    }


def _write_value(value: Any) -> str:
    return "(missing)" if value is _MISSING else json.dumps(value, ensure_ascii=False)


def _seen(exists: bool) -> str:
    return "a file" if exists else "(no file)"
