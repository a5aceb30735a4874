"""Compares two states and lists the values that differ. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from mnemosyne.values import dataclass

MOST_CHANGES = 200
"""Maximum number of listed changes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateChange:
    """A value that differs between two states. `path` is a JSON Pointer; a missing value is None."""

    path: str
    before: Any = None
    after: Any = None


def find_changes(before: Any, after: Any) -> tuple[StateChange, ...]:
    """Return the values that differ between two states, in the order of their paths, at most MOST_CHANGES."""
    return tuple(islice(_walk("", before, after), MOST_CHANGES))


def _walk(path: str, before: Any, after: Any) -> Iterator[StateChange]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys((*before, *after)):
            step = str(name).replace("~", "~0").replace("/", "~1")
            yield from _walk(f"{path}/{step}", before.get(name), after.get(name))
    elif isinstance(before, list) and isinstance(after, list):
        for place in range(max(len(before), len(after))):
            values = (each[place] if place < len(each) else None for each in (before, after))
            yield from _walk(f"{path}/{place}", *values)
    elif before != after or type(before) is not type(after):
        yield StateChange(path=path, before=before, after=after)
