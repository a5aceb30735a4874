"""Reads and writes JSON Pointers (RFC 6901), and looks values up in a tree of mappings and lists.

Tokens are the steps of a pointer: `/a/b` has the tokens `("a", "b")`. This module imports nothing of filament.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

Tokens = tuple[str, ...]

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_BAD_ESCAPE = re.compile(r"~(?![01])")


def join_pointer(tokens: Iterable[str | int]) -> str:
    """Return the JSON Pointer of `tokens`, with `~` written as `~0` and `/` as `~1`. The pointer of the root is ''."""
    return "".join(["/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens])


def split_pointer(pointer: str) -> Tokens:
    """Return the tokens of a JSON Pointer.

    Raises ValueError if `pointer` is not empty and does not begin with `/`, or has a `~` that is not followed by 0 or 1.
    """
    if pointer == "":
        return ()
    if not pointer.startswith("/") or _BAD_ESCAPE.search(pointer):
        raise ValueError(
            f"{pointer!r} is not a JSON Pointer. Write /a/b, with ~1 for a slash and ~0 for a tilde in a name"
        )
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/"))


def list_place(token: str, length: int) -> int | None:
    """Return the 0-based list index that `token` names, or None if `token` is not an index below `length`."""
    if _INDEX.fullmatch(token) is None or int(token) >= length:
        return None
    return int(token)


def step(node: Any, token: str) -> tuple[bool, Any]:
    """Return (True, child) if `node` has a child named `token`, else (False, None)."""
    if isinstance(node, Mapping):
        return (True, node[token]) if token in node else (False, None)
    if isinstance(node, list | tuple):
        place = list_place(token, len(node))
        return (False, None) if place is None else (True, node[place])
    return False, None


def look_up(tree: Any, tokens: Tokens) -> tuple[bool, Any]:
    """Return (True, value) for the value at `tokens`, or (False, None) if there is none."""
    node = tree
    for token in tokens:
        found, node = step(node, token)
        if not found:
            return False, None
    return True, node
