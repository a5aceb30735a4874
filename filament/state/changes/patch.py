"""Applies JSON Patch objects (RFC 6902: add, replace, remove) to a tree, without checking any rules.

A stored log of changes is replayed in this way: each change was checked before it was stored. Only the mappings and lists on
the path to a change are copied, and each of them only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from filament.errors import OpError
from filament.state.pointer import Tokens, list_place, split_pointer

PatchOp = Mapping[str, Any]
_VERBS = ("add", "replace", "remove")


def apply_patch(tree: Any, patch: Iterable[PatchOp]) -> Any:
    """Return `tree` after all ops of `patch`. Neither `tree` nor the values in `patch` are changed.

    Raises:
        OpError: if an op is not add, replace or remove, or its path does not exist. The error has the op's index in
            `patch`.
    """
    changing = ChangingTree(tree)
    for index, op in enumerate(patch):
        try:
            changing.play(op)
        except ValueError as error:
            raise OpError(index, f"{op.get('op')} {op.get('path')}", str(error)) from error
    return changing.tree


class ChangingTree:
    """A tree to which patch ops are applied one after the other. The attribute `tree` is the result so far.

    The original tree and the values in ops are never changed. A part that `tree` shares with the original tree or with a value
    is copied before its first change. Later changes are made in the copy. So the cost of an op depends on the depth of its
    path, not on the size of the tree.
    """

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self._copies: dict[int, Any] = {}

    def play(self, op: PatchOp) -> None:
        """Apply one op. Raises ValueError if the op cannot be applied. The tree is then unchanged."""
        verb, tokens = op.get("op"), split_pointer(str(op.get("path", "")))
        if verb not in _VERBS:
            raise ValueError(f"{verb!r} is not supported here. Use add, replace or remove")
        if verb != "remove" and "value" not in op:
            raise ValueError("there is no value. Give one")
        value = op.get("value")
        self._mark_shared(value)
        if tokens:
            self.tree = self._change_along(self.tree, tokens, verb, value)
        elif verb == "remove":
            raise ValueError("the root cannot be removed")
        else:
            self.tree = value

    def _change_along(self, node: Any, tokens: Tokens, verb: str, value: Any) -> Any:
        """Return the node with the end of the path changed; everything else is shared."""
        token = tokens[0]
        if isinstance(node, Mapping):
            if len(tokens) == 1 and verb == "add":
                return self._set_child(node, token, value)
            if token not in node:
                raise _missing_target_error(token)
            if len(tokens) > 1:
                return self._set_child(node, token, self._change_along(node[token], tokens[1:], verb, value))
            return self._remove_child(node, token) if verb == "remove" else self._set_child(node, token, value)
        grows = len(tokens) == 1 and verb == "add"
        place = None
        if isinstance(node, list | tuple):
            place = len(node) if grows and token == "-" else list_place(token, len(node) + grows)
        if place is None:
            raise _missing_target_error(token)
        if len(tokens) > 1:
            return self._set_child(node, place, self._change_along(node[place], tokens[1:], verb, value))
        if verb == "replace":
            return self._set_child(node, place, value)
        own = self._own_copy(node)
        if verb == "remove":
            del own[place]
        else:
            own.insert(place, value)
        return own

    def _set_child(self, node: Any, key: str | int, value: Any) -> Any:
        own = self._own_copy(node)
        own[key] = value
        return own

    def _remove_child(self, node: Any, key: str) -> Any:
        own = self._own_copy(node)
        del own[key]
        return own

    def _own_copy(self, node: Any) -> Any:
        """Return a node that may be changed in place: the node itself if it was made here, else a copy."""
        if id(node) in self._copies:
            return node
        copy = dict(node) if isinstance(node, Mapping) else list(node)
        # Kept alive, so that its `id()` is never reused for another node.
        self._copies[id(copy)] = copy
        return copy

    def _mark_shared(self, value: Any) -> None:
        """Record that a caller now shares (parts of) a value, so that they are no longer changed in place."""
        parts = [value] if self._copies else []
        while parts:
            part = parts.pop()
            if isinstance(part, Mapping | list | tuple):
                self._copies.pop(id(part), None)
                parts.extend(part.values() if isinstance(part, Mapping) else part)


def _missing_target_error(token: str) -> ValueError:
    return ValueError(f"there is nothing at {token!r} on this path. Look at the tree as it is now")
