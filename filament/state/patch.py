"""JSON Patch objects (RFC 6902: add, replace, remove) applied to a tree, unguarded.

This is how a stored op log is played again: what was allowed when it was written is not asked twice. Pure: only the
mappings and lists on the way to a change are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from filament.errors import OpError
from filament.state.pointer import Tokens, list_place, split_pointer

PatchOp = Mapping[str, Any]
_Change = Callable[[Any, str], Any]


def apply_patch(tree: Any, patch: Iterable[PatchOp]) -> Any:
    """Return the tree after the patch; the given tree stays as it was.

    OpError, with the place of the op in the patch, if an op is no add, replace or remove or its path leads nowhere.
    """
    for index, op in enumerate(patch):
        try:
            tree = patch_once(tree, op)
        except ValueError as error:
            raise OpError(index, f"{op.get('op')} {op.get('path')}", str(error)) from error
    return tree


def patch_once(tree: Any, op: PatchOp) -> Any:
    """Return the tree after one op; ValueError says what is wrong with it."""
    verb, tokens = op.get("op"), split_pointer(str(op.get("path", "")))
    if verb not in _CHANGES:
        raise ValueError(f"{verb!r} is not supported here. Use add, replace or remove")
    if verb != "remove" and "value" not in op:
        raise ValueError("there is no value. Give one")
    if not tokens:
        if verb == "remove":
            raise ValueError("the root cannot be removed")
        return op["value"]
    return _along(tree, tokens, _CHANGES[verb](op.get("value")))


def _along(node: Any, tokens: Tokens, change: _Change) -> Any:
    """Return a copy of the node in which the end of the path is changed; all the rest is shared."""
    token = tokens[0]
    if len(tokens) == 1:
        return change(node, token)
    if isinstance(node, Mapping) and token in node:
        return {**node, token: _along(node[token], tokens[1:], change)}
    place = list_place(token, len(node)) if isinstance(node, list | tuple) else None
    if place is None:
        raise _nowhere(token)
    return [*node[:place], _along(node[place], tokens[1:], change), *node[place + 1 :]]


def _add(value: Any) -> _Change:
    def change(node: Any, token: str) -> Any:
        if isinstance(node, Mapping):
            return {**node, token: value}
        if not isinstance(node, list | tuple):
            raise _nowhere(token)
        place = len(node) if token == "-" else list_place(token, len(node) + 1)
        if place is None:
            raise _nowhere(token)
        return [*node[:place], value, *node[place:]]

    return change


def _replace(value: Any) -> _Change:
    def change(node: Any, token: str) -> Any:
        if isinstance(node, Mapping) and token in node:
            return {**node, token: value}
        place = list_place(token, len(node)) if isinstance(node, list | tuple) else None
        if place is None:
            raise _nowhere(token)
        return [*node[:place], value, *node[place + 1 :]]

    return change


def _remove(_: Any) -> _Change:
    def change(node: Any, token: str) -> Any:
        if isinstance(node, Mapping) and token in node:
            return {key: value for key, value in node.items() if key != token}
        place = list_place(token, len(node)) if isinstance(node, list | tuple) else None
        if place is None:
            raise _nowhere(token)
        return [*node[:place], *node[place + 1 :]]

    return change


def _nowhere(token: str) -> ValueError:
    return ValueError(f"there is nothing at {token!r} on this path. Look at the tree as it is now")


_CHANGES: dict[Any, Callable[[Any], _Change]] = {"add": _add, "replace": _replace, "remove": _remove}
