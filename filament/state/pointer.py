"""JSON Pointers (RFC 6901) and look-ups in a tree of mappings and lists. Imports nothing of filament."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

Tokens = tuple[str, ...]

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_BAD_ESCAPE = re.compile(r"~(?![01])")


def join_pointer(tokens: Iterable[str | int]) -> str:
    """Return the JSON Pointer of the tokens: `~` as `~0`, `/` as `~1`; the root is the empty text."""
    return "".join(["/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens])


def split_pointer(pointer: str) -> Tokens:
    """Return the tokens of a JSON Pointer; ValueError if it neither is empty nor starts with `/`, or has a bad `~`."""
    if pointer == "":
        return ()
    if not pointer.startswith("/") or _BAD_ESCAPE.search(pointer):
        raise ValueError(
            f"{pointer!r} is not a JSON Pointer. Write /a/b, with ~1 for a slash and ~0 for a tilde in a name"
        )
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/"))


def list_place(token: str, length: int) -> int | None:
    """Return the list index that a token names (0-based, below `length`), or None."""
    if _INDEX.fullmatch(token) is None or int(token) >= length:
        return None
    return int(token)


def step(node: Any, token: str) -> tuple[bool, Any]:
    """Return (True, child) if the node has such a child, else (False, None)."""
    if isinstance(node, Mapping):
        return (True, node[token]) if token in node else (False, None)
    if isinstance(node, list | tuple):
        place = list_place(token, len(node))
        return (False, None) if place is None else (True, node[place])
    return False, None


def look_up(tree: Any, tokens: Tokens) -> tuple[bool, Any]:
    """Return (True, value) of what the tokens lead to, or (False, None)."""
    node = tree
    for token in tokens:
        found, node = step(node, token)
        if not found:
            return False, None
    return True, node
