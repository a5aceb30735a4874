"""Ops on a state tree, applied or refused as a whole: the short form of `judge`, and where a target leads.

Pure. The patch is what a store keeps, and what `apply_patch` plays again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from filament.errors import OpError
from filament.judge import JudgedOps, judge_ops
from filament.places import AnchorIndex, locate
from filament.pointer import join_pointer
from filament.verbs import CREATING, Op, Verb, parse_op

__all__ = ["AppliedOps", "JudgedOps", "Op", "Verb", "apply_ops", "judge_ops", "parse_op", "resolve"]


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

    All or nothing: OpError at the first op that is refused, with its place in `ops`, its reason and its code, and then
    nothing was done. `judge_ops` tells of every op. Each op sees the work of those before it, ids of things that were just
    added included. What `$meta` allows is told in docs/filament.md.
    """
    judged = judge_ops(tree, ops, anchors)
    if (bad := judged.refused) is not None:
        raise OpError(bad.number, bad.op, bad.reason, bad.code)
    return AppliedOps(tree=judged.tree, patch=judged.patch)
