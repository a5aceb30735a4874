"""Ops on a state tree: resolved by anchor, checked against `$meta`, applied all or nothing (spec 3.4; seed 004 5.3).

Pure: a tree is never changed; the new one shares what stayed the same. The patch is what a store keeps, and what
`apply_patch` plays again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from filament.anchors import walk_anchors
from filament.errors import OpError
from filament.moves import propose
from filament.patch import patch_once
from filament.places import AnchorIndex, locate
from filament.pointer import join_pointer, look_up, split_pointer
from filament.verbs import CREATING, Op, Verb, checked_value, parse_op

__all__ = ["AppliedOps", "Op", "Verb", "apply_ops", "parse_op", "resolve"]


@dataclass(frozen=True, kw_only=True, slots=True)
class AppliedOps:
    """The tree after the ops, and the JSON Patch that leads from the old tree to it, in order."""

    tree: Any
    patch: tuple[Mapping[str, Any], ...]


def resolve(op: Op, anchors: Mapping[str, str] | None, tree: Any) -> str:
    """Return the JSON Pointer that an op's target names in a tree; the last step may be a field that is not there yet.

    `anchors` are those that the prompt showed (anchor -> JSON Pointer); anchors that the tree bears go first, so a thing
    that moved is still found. OpError if the target leads nowhere.
    """
    try:
        return join_pointer(locate(op.target, AnchorIndex(tree, anchors), tree, may_create=op.verb in CREATING))
    except ValueError as error:
        raise OpError(op.number, str(op), str(error)) from error


def apply_ops(tree: Any, ops: Sequence[Op], anchors: Mapping[str, str] | None = None) -> AppliedOps:
    """Return the tree after all ops, in order, and the patch; the given tree stays as it was.

    All or nothing: OpError at the first op that is refused, with its place in `ops`, and then nothing was done. Each op
    sees the work of those before it, ids of things that were just added included.

    Arithmetic is clamped to `$meta.limits`; a SET outside is refused. `updatable: false` refuses every change below, until
    a mapping further down says `updatable: true`. `extensible: false` refuses new fields and PUSH, `necessary` the DELETE
    of a field. SET on a VWD keeps its description. A list that comes to look like a VWD is named in `$meta.lists`.
    """
    index = AnchorIndex(tree, anchors)
    patch: list[Mapping[str, Any]] = []
    for number, op in enumerate(ops):
        try:
            sound = replace(op, value=checked_value(op.value))
            tokens = locate(op.target, index, tree, may_create=op.verb in CREATING)
            for change in propose(sound, tokens, tree, index):
                _reindex(index, tree, change)
                tree = patch_once(tree, change)
                patch.append(change)
        except ValueError as error:
            raise OpError(number, str(op), str(error)) from error
    return AppliedOps(tree=tree, patch=tuple(patch))


def _reindex(index: AnchorIndex, tree: Any, change: Mapping[str, Any]) -> None:
    """Keep the anchors right through one change, of which `tree` is the state before."""
    tokens = split_pointer(change["path"])
    above, key = tokens[:-1], tokens[-1]
    owner = look_up(tree, above)[1]
    in_list = isinstance(owner, list | tuple)
    if change["op"] == "add" and in_list:
        place = len(owner) if key == "-" else int(key)
        index.shift(above, place, 1)
        tokens = (*above, str(place))
    else:
        index.drop(tokens)
        if change["op"] == "remove" and in_list:
            index.shift(above, int(key) + 1, -1)
    if change["op"] != "remove" and "$meta" not in tokens:
        index.add(walk_anchors(change["value"], tokens))
