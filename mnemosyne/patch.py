"""JSON Patch on plain trees: how a store plays an op log forward.

The room exists so that a store can rebuild any past state from resolved ops without knowing anchors, flat paths or the
rules of `$meta`: those were settled when the op was first applied. It imports the errors of mnemosyne and nothing else.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from mnemosyne.errors import StateOpError


def apply_patch(tree: Mapping[str, Any], ops: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return `tree` after the ops, in order (RFC 6902: `add`, `replace` and `remove`); `tree` stays as it is.

    StateOpError names the first op that does not fit; then nothing is returned.
    """
    root: Any = copy.deepcopy(dict(tree))
    for index, op in enumerate(ops):
        try:
            root = _apply(root, str(op["op"]), _segments(op["path"]), op)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise StateOpError(index, f"{op.get('op')} {op.get('path')}", _reason(error)) from None
    if not isinstance(root, dict):
        raise StateOpError(0, "replace ''", "the root of a state is a mapping")
    return root


def _apply(root: Any, verb: str, path: list[str], op: Mapping[str, Any]) -> Any:
    if verb not in ("add", "replace", "remove"):
        raise ValueError(f"{verb!r} is none of add, replace, remove")
    value = copy.deepcopy(op["value"]) if verb != "remove" else None
    if not path:
        if verb == "remove":
            raise ValueError("the root cannot be removed")
        return value
    parent = root
    for segment in path[:-1]:
        parent = parent[_index(parent, segment)] if isinstance(parent, list) else _mapping(parent)[segment]
    if isinstance(parent, list):
        _apply_to_list(parent, verb, path[-1], value)
    else:
        _apply_to_mapping(_mapping(parent), verb, path[-1], value)
    return root


def _apply_to_list(items: list[Any], verb: str, segment: str, value: Any) -> None:
    if verb == "add":
        place = len(items) if segment == "-" else _number(segment)
        if place > len(items):
            raise IndexError(f"index {place} lies beyond the end of a list of {len(items)}")
        items.insert(place, value)
        return
    place = _index(items, segment)
    if verb == "replace":
        items[place] = value
    else:
        del items[place]


def _apply_to_mapping(fields: dict[str, Any], verb: str, segment: str, value: Any) -> None:
    if verb != "add" and segment not in fields:
        raise KeyError(segment)
    if verb == "remove":
        del fields[segment]
    else:
        fields[segment] = value


def _mapping(node: Any) -> dict[str, Any]:
    if not isinstance(node, dict):
        raise TypeError("the path goes through a value that has no fields")
    return node


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
