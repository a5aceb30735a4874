"""Checks that a tree of values is plain, so that every store, codec and prompt can contain the tree without loss.

Trees from outside are in packs and corpora. Without the check, a date, a NaN or half a surrogate pair in a tree would
be noticed only when a session is written. The module imports nothing of mnemosyne.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

MAX_DEPTH = 48
MAX_NODES = 1_000_000
_INTEGERS = range(-(2**63), 2**63)
REPLACEMENT = "\ufffd"
"""Character that replaces half a surrogate pair."""

Path = tuple[str | int, ...]


def plain_faults(value: Any, *, any_text: bool = False) -> Iterator[tuple[Path, str]]:
    """Yield (path, reason) for everything in `value` that is not plain, in reading order.

    Plain values are null, true and false, whole numbers of 64 bits, finite numbers, text that UTF-8 can write, lists, and
    mappings with text keys. A plain tree has at most MAX_DEPTH levels and MAX_NODES values. The search stops at a tree with
    more values, after it has yielded this fault. If `any_text`, half a surrogate pair is accepted, too, because quoted text
    is kept unchanged.
    """
    stack: list[tuple[Path, Any]] = [((), value)]
    nodes = 0
    while stack:
        path, node = stack.pop()
        nodes += 1
        if nodes > MAX_NODES:
            yield (), f"holds more than {MAX_NODES:,} values; split it, and do without YAML aliases"
            return
        if isinstance(node, dict | list):
            if len(path) >= MAX_DEPTH:
                yield path, f"is nested more than {MAX_DEPTH} levels deep; flatten it"
                continue
            yield from _key_faults(path, node, any_text)
            items = node.items() if isinstance(node, dict) else enumerate(node)
            stack.extend(reversed([((*path, _key(key)), child) for key, child in items]))
        elif reason := _scalar_fault(node, any_text):
            yield path, reason


def text_fault(text: str) -> str | None:
    """Return the reason why `text` cannot be written as UTF-8, or None if it can."""
    if text.isascii():
        return None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"holds half a surrogate pair at character {error.start + 1}; write the whole character"
    return None


def _key_faults(path: Path, node: dict[Any, Any] | list[Any], any_text: bool) -> Iterator[tuple[Path, str]]:
    if isinstance(node, list):
        return
    for key in node:
        if not isinstance(key, str):
            yield (*path, _key(key)), f"has the key {key!r}, which is not text; write it in quotes"
        elif not any_text and text_fault(key):
            yield path, f"has a key that {text_fault(key)}"


def _key(key: Any) -> str | int:
    return key if isinstance(key, str | int) and not isinstance(key, bool) else str(key)


def _scalar_fault(value: Any, any_text: bool) -> str | None:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, str):
        return None if any_text else text_fault(value)
    if isinstance(value, int):
        return None if value in _INTEGERS else "is a whole number of more than 64 bits; write it as text, in quotes"
    if isinstance(value, float):
        return None if math.isfinite(value) else "is not a finite number; write a number or null"
    return f"is a {type(value).__name__}, which cannot be stored; write it as text, in quotes"


def plain_or_none(value: Any) -> Any:
    """Return a JSON value made plain by `make_plain`, or None if it is too deep or too large for a store."""
    made = make_plain(value)
    return made if next(plain_faults(made), None) is None else None


def make_plain(value: Any) -> Any:
    """Return a JSON value with replacements for everything that cannot be stored.

    Half a surrogate pair becomes REPLACEMENT. A whole number of more than 64 bits becomes its text. A number that is
    not finite becomes null. Levels below MAX_DEPTH stay unchanged.
    """
    return _replace_scalars(value, _plain_scalar)


def complete_characters(value: Any) -> Any:
    """Return a tree in which REPLACEMENT replaces half a surrogate pair. Everything else is unchanged."""
    return _replace_scalars(value, _whole_text)


def _replace_scalars(value: Any, replace: Callable[[Any], Any], depth: int = 0) -> Any:
    if depth >= MAX_DEPTH:
        return value
    if isinstance(value, dict):
        return {_whole_text(key): _replace_scalars(each, replace, depth + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [_replace_scalars(each, replace, depth + 1) for each in value]
    return replace(value)


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, int) and value not in _INTEGERS:
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return _whole_text(value)


def _whole_text(value: Any) -> Any:
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
