"""What counts as a plain value: a tree that every store, codec and prompt can carry without loss.

Packs and corpora bring in trees from outside. A date, a NaN or an unpaired surrogate in one of them would otherwise be
noticed only when a session is written. It must not import anything of mnemosyne.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

MAX_DEPTH = 48
MAX_NODES = 1_000_000
_INTEGERS = range(-(2**63), 2**63)

Path = tuple[str | int, ...]


def plain_faults(value: Any, *, any_text: bool = False) -> Iterator[tuple[Path, str]]:
    """Yield `(path, reason)` for everything in `value` that is not plain, in reading order.

    Plain are null, true and false, whole numbers of 64 bits, finite numbers, text that UTF-8 can write, lists, and
    mappings with text keys; at most MAX_DEPTH levels and MAX_NODES values (then the walk ends). With `any_text` half a
    surrogate pair passes too: quoted text is kept unchanged.
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
    """Return what keeps `text` from being written as UTF-8, or None."""
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
