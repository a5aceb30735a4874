"""State conventions: values with a description (VWD), and what an author's `$meta` says of a mapping.

A two-element list `[scalar, "text"]` is a value with its description, unless the mapping that owns the field names it
in `$meta.lists`. `$meta` is the author's word on a mapping; a reader of prompts never sees it. Imports pointer only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

META = "$meta"
ID = "id"
ANCHOR = "_anchor"
EMPTY: Mapping[str, Any] = {}


def is_scalar(value: Any) -> bool:
    """Say whether a value is text, a number, a boolean or None."""
    return value is None or isinstance(value, str | int | float)


def is_pair(value: Any) -> bool:
    """Say whether a value has the shape of a VWD: two elements, a scalar and a text."""
    return isinstance(value, list | tuple) and len(value) == 2 and is_scalar(value[0]) and isinstance(value[1], str)


def meta_of(node: Any) -> Mapping[str, Any]:
    """Return the `$meta` of a mapping, empty if there is none."""
    meta = node.get(META) if isinstance(node, Mapping) else None
    return meta if isinstance(meta, Mapping) else EMPTY


def plain_lists(node: Any) -> frozenset[str]:
    """Return the fields of a mapping that its `$meta.lists` declares to be lists, never VWD."""
    names = meta_of(node).get("lists")
    return (
        frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list | tuple) else frozenset()
    )


def is_described(owner: Any, field: str, value: Any) -> bool:
    """Say whether the value of a mapping's field is a VWD."""
    return is_pair(value) and field not in plain_lists(owner)


def is_list(owner: Any, field: str, value: Any) -> bool:
    """Say whether the value of a mapping's field is a list and no VWD."""
    return isinstance(value, list | tuple) and not is_described(owner, field, value)


def anchors_of(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the anchors that a mapping bears: its `id` and its `_anchor`, if they are text and not empty."""
    names = (node.get(ID), node.get(ANCHOR))
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str) and name))
