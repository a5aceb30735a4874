"""Large bodies of requests: for each part of a request type that may grow, a body in which that part is large."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from enum import Enum
from itertools import islice
from typing import Any

from jacquard.remote.bodies import MOST_ENTRIES, MOST_MESSAGES

DEPTH = 900
"""JSON that is nested deeper is not read."""

_PLAIN = {str: "x", int: 1, float: 1.0, bool: True, Any: "x", datetime: "2026-01-31T12:00:00+00:00"}


def list_trees(size: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names and JSON objects of about `size` characters."""
    yield "many keys", {f"k{number}": "v" for number in range(size // 12)}
    yield "most keys", {f"k{number}": "v" * (size // 2_000) for number in range(MOST_ENTRIES)}
    yield "many lists", {"a": [[1]] * (size // 5)}
    deep: dict[str, Any] = {"n" * (size // 2): float("9" * 300)}
    for _ in range(DEPTH):
        deep = {"a": deep}
    yield "a deep tree", deep


def list_bodies(kind: Any, size: int) -> Iterator[tuple[str, Any]]:
    """Yield a name and a value of a type for each part of it that may be large."""
    for each in _options(kind):
        origin, items = typing.get_origin(each), typing.get_args(each)
        if each in (str, Any):
            yield "a text", "word " * (size // 5)
        if each is Any or _is_tree(each):
            yield from list_trees(size)
        elif _is_mapping(each):
            yield "many entries", dict(_number(_least(items[1]), size))
            yield "most entries", dict(islice(_number(_least(items[1]), size), MOST_ENTRIES))
        elif origin in (tuple, list, frozenset):
            many = [item for _, item in _number(_least(items[0]), size)]
            yield "many items", many
            yield "most items", many[:MOST_ENTRIES]
            yield "most messages", many[:MOST_MESSAGES]
            for name, value in list_bodies(items[0], size):
                yield f"an item: {name}", [value]
        elif is_dataclass(each):
            hints = typing.get_type_hints(each)
            for part in fields(each):
                for name, value in list_bodies(hints[part.name], size):
                    yield f"{part.name}: {name}", {**_least(each), part.name: value}


def _number(item: Any, size: int) -> Iterator[tuple[str, Any]]:
    """Yield keys and copies of an item, each with ids of its own."""
    for number in range(size // (len(str(item)) + 10)):
        own = item
        if isinstance(item, str):
            own = f"{item}{number}"
        elif isinstance(item, dict):
            own = {
                name: f"{value}{number}" if isinstance(value, str) and value == "x" else value
                for name, value in item.items()
            }
        yield f"k{number}", own


def _options(kind: Any) -> list[Any]:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return [one for each in typing.get_args(kind) if each is not type(None) for one in _options(each)]
    return [kind]


def _least(kind: Any) -> Any:
    """Return the least JSON value of a type."""
    kind = _options(kind)[0]
    if kind in _PLAIN:
        return _PLAIN[kind]
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        needed = [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]
        return {name: _least(hints[name]) for name in needed}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind)).value
    return {} if _is_mapping(kind) or _is_tree(kind) else []


def _is_mapping(kind: Any) -> bool:
    origin = typing.get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _is_tree(kind: Any) -> bool:
    return kind is dict or (_is_mapping(kind) and typing.get_args(kind)[1] is Any)
