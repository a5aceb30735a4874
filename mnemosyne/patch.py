"""JSON Patch on plain trees: how a store plays an op log forward.

The room exists so that a store can rebuild any past state from resolved ops without knowing anchors, flat paths or the
rules of `$meta`: those were settled when the op was first applied. It imports the errors of mnemosyne and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mnemosyne.errors import StateOpError


def apply_patch(tree: Mapping[str, Any], ops: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return `tree` after the ops, in order (RFC 6902: `add`, `replace` and `remove`); `tree` stays as it is.

    Only what lies on the way to a change is copied; the rest is shared. StateOpError names the first op that does not
    fit; then nothing is returned.
    """
    root: Any = dict(tree)
    for index, op in enumerate(ops):
        try:
            root = _apply(root, op)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise StateOpError(index, f"{op.get('op')} {op.get('path')}", _reason(error)) from None
    if not isinstance(root, dict):
        raise StateOpError(0, "replace ''", "the root of a state is a mapping")
    return root


def _apply(root: Any, op: Mapping[str, Any]) -> Any:
    verb, path = op["op"], _segments(op["path"])
    if verb not in ("add", "replace", "remove"):
        raise ValueError(f"{verb!r} is none of add, replace, remove")
    value = op["value"] if verb != "remove" else None
    if path:
        return _along(root, path, 0, verb, value)
    if verb == "remove":
        raise ValueError("the root cannot be removed")
    return value


def _along(node: Any, path: list[str], at: int, verb: str, value: Any) -> Any:
    """Return a copy of `node` with the change made below it."""
    segment, last = path[at], at == len(path) - 1
    if isinstance(node, list):
        items = list(node)
        if last:
            _change_list(items, verb, segment, value)
        else:
            place = _index(items, segment)
            items[place] = _along(items[place], path, at + 1, verb, value)
        return items
    if not isinstance(node, dict):
        raise TypeError("the path goes through a value that has no fields")
    fields = dict(node)
    if not last:
        fields[segment] = _along(fields[segment], path, at + 1, verb, value)
    elif verb == "add" or segment in fields:
        if verb == "remove":
            del fields[segment]
        else:
            fields[segment] = value
    else:
        raise KeyError(segment)
    return fields


def _change_list(items: list[Any], verb: str, segment: str, value: Any) -> None:
    if verb == "add":
        place = len(items) if segment == "-" else _number(segment)
        if place > len(items):
            raise IndexError(f"index {place} lies beyond the end of a list of {len(items)}")
        items.insert(place, value)
    elif verb == "replace":
        items[_index(items, segment)] = value
    else:
        del items[_index(items, segment)]


def _index(items: list[Any], segment: str) -> int:
    place = _number(segment)
    if place >= len(items):
        raise IndexError(f"a list of {len(items)} has no index {place}")
    return place


def _number(segment: str) -> int:
    if not (segment.isascii() and segment.isdigit()) or (segment[0] == "0" and segment != "0"):
        raise ValueError(f"{segment!r} is no list index")
    return int(segment)


def _segments(pointer: Any) -> list[str]:
    """Split a JSON Pointer (RFC 6901)."""
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise ValueError("the path is no JSON Pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _reason(error: Exception) -> str:
    return f"there is no {error.args[0]!r} there" if isinstance(error, KeyError) else str(error)
