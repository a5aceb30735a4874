"""Judges the ops of a turn one by one, and applies either all of them or none.

An op is one change of the state. The tree that is passed in is never changed; the new tree shares the unchanged parts with it.
Every op gets a verdict, also after a refused one, so that a host, a model or an author sees all faults at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from filament.errors import OpError
from filament.state.anchors import patch_removed_ids, walk_anchors, with_anchors
from filament.state.changes.moves import OpPlanner, propose
from filament.state.changes.ops import CREATING, Op, copy_json_value, parse_op, raw_text
from filament.state.changes.patch import ChangingTree
from filament.state.changes.sizes import (
    NO_LIMITS,
    OpLimits,
    change_chars,
    check_depth,
    check_state_size,
    check_value_size,
    json_chars,
)
from filament.state.conventions import label_of
from filament.state.places import AnchorIndex, locate
from filament.state.pointer import join_pointer, look_up, split_pointer
from filament.state.verdicts import Authority, Note, OpVerdict, Outcome, Refusal, RefusedError, build_refusal

PatchOp = Mapping[str, Any]
APPLIED = "applied"


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedOps:
    """Result of judging the ops of a turn."""

    tree: Any
    """The state after the ops. It is unchanged if any op was refused."""
    patch: tuple[PatchOp, ...]
    """The JSON Patch that turns the old state into `tree`. It is empty if any op was refused."""
    verdicts: tuple[OpVerdict, ...]
    """One verdict for each op, in order."""

    @property
    def refused(self) -> OpVerdict | None:
        """The first op that was refused for a reason of its own, or None if no op was refused."""
        return find_refused(self.verdicts)


def judge_ops(
    tree: Any,
    ops: Sequence[Any],
    anchors: Mapping[str, str] | None = None,
    *,
    lost: Sequence[OpVerdict] = (),
    limits: OpLimits = NO_LIMITS,
    authority: Authority = Authority.MODEL,
) -> JudgedOps:
    """Return the verdict on each of `ops`, with the new tree and the JSON Patch.

    An invalid op does not raise an error, and `tree` is not changed. Each op sees the effect of the valid ops before it. If one
    op is refused, the others are still judged, but none takes effect. An op without a fault of its own then gets the code
    `turn_refused`. The patch also gives ids to mappings in lists that have none; `with_anchors` shows the same ids.

    Args:
        ops: `Op` values, or ops as JSON in one of the two forms that `parse_op` reads.
        anchors: The anchors that the prompt showed, mapped to their JSON Pointers.
        lost: Verdicts on ops of the same reply that could not be read. They count as refused. If there are any, all
            verdicts are numbered by their place in the reply (`Op.number`).
        limits: Limits on the ops, on their values and on the state after each op. Ops beyond `limits.reply_ops` are
            not judged; one further verdict (`too_many_ops`) reports them.
        authority: The giver of the ops.
    """
    numbered = [(op.number if lost and isinstance(op, Op) else number, op) for number, op in enumerate(ops)]
    numbered, lost, beyond = _limit_ops(numbered, lost, limits)
    run = _Run(tree, anchors, limits, authority)
    judged = [run.take(number, op) for number, op in numbered]
    verdicts = sorted([*lost, *judged, *beyond], key=lambda verdict: verdict.number)
    first = find_refused(verdicts)
    if first is None:
        return JudgedOps(tree=run.tree if run.patch else tree, patch=tuple(run.patch), verdicts=tuple(verdicts))
    reason = f"nothing is wrong with it, but op {first.number} was refused, and a turn's ops are applied all or none"
    bound = (
        build_refusal(v.number, v.op, Refusal.TURN_REFUSED, reason, target=v.target) if v.is_applied else v
        for v in verdicts
    )
    return JudgedOps(tree=tree, patch=(), verdicts=tuple(bound))


def _limit_ops(
    numbered: list[tuple[int, Any]], lost: Sequence[OpVerdict], limits: OpLimits
) -> tuple[list[tuple[int, Any]], Sequence[OpVerdict], list[OpVerdict]]:
    """Return the ops and lost ops within the limit of a reply, and the verdict on those beyond it, if there are any."""
    total = len(numbered) + len(lost)
    if limits.reply_ops is None or total <= limits.reply_ops:
        return numbered, lost, []
    everything: list[tuple[int, Any]] = [*((verdict.number, verdict) for verdict in lost), *numbered]
    first, op = sorted(everything, key=lambda pair: pair[0])[limits.reply_ops]
    text = op.op if isinstance(op, OpVerdict) else str(op) if isinstance(op, Op) else raw_text(op)
    reason = (
        f"the reply has {total:,} ops, and at most {limits.reply_ops:,} of one reply are judged (limits.reply_ops); "
        "this one and those after it were not"
    )
    beyond = build_refusal(first, text, Refusal.TOO_MANY_OPS, reason)
    return (
        [(number, op) for number, op in numbered if number < first],
        [verdict for verdict in lost if verdict.number < first],
        [beyond],
    )


def find_refused(verdicts: Sequence[OpVerdict]) -> OpVerdict | None:
    """Return the first refused op, or None if none was refused. An op with a fault of its own takes precedence."""
    bad = [verdict for verdict in verdicts if not verdict.is_applied]
    return next((verdict for verdict in bad if verdict.code != Refusal.TURN_REFUSED), bad[0] if bad else None)


@dataclass(frozen=True, kw_only=True, slots=True)
class AppliedOps:
    """The tree after the ops, and the JSON Patch that turns the old tree into it, in order."""

    tree: Any
    patch: tuple[Mapping[str, Any], ...]


def resolve(op: Op, anchors: Mapping[str, str] | None, tree: Any) -> str:
    """Return the JSON Pointer of the place that `op` names in `tree`. The last step of the pointer may be a field that does
    not exist yet.

    `anchors` maps the anchors that the prompt showed to JSON Pointers. The tree's own anchors take precedence, so an entity
    that was moved after the prompt is still found.

    Raises:
        OpError: if the place does not exist.
    """
    try:
        return join_pointer(locate(op.target, AnchorIndex(tree, anchors), tree, may_create=op.verb in CREATING))
    except ValueError as error:
        raise OpError(op.number, str(op), str(error)) from error


def apply_ops(tree: Any, ops: Sequence[Op], anchors: Mapping[str, str] | None = None) -> AppliedOps:
    """Return the tree after all `ops`, in order, with the JSON Patch. The given `tree` is not changed.

    Either all ops are applied or none. (`judge_ops` returns a verdict on every op instead of an error.) Each op sees the effect
    of the ops before it, including the ids of mappings that were just added. `docs/en/state-rules.md` explains which changes
    `$meta` allows. `anchors` are the anchors that the prompt showed, mapped to JSON Pointers.

    Raises:
        OpError: for the first op that is refused, with its place in `ops`, its reason and its code.
    """
    judged = judge_ops(tree, ops, anchors)
    if (bad := judged.refused) is not None:
        raise OpError(bad.number, bad.op, bad.reason, bad.code)
    return AppliedOps(tree=judged.tree, patch=judged.patch)


class _Run:
    """A tree to which ops are applied one after the other."""

    def __init__(self, tree: Any, anchors: Mapping[str, str] | None, limits: OpLimits, authority: Authority) -> None:
        self._authority = authority
        self.patch: list[PatchOp] = []
        self._limits = limits
        self._changing = ChangingTree(with_anchors(tree))
        self._id_patch = list(_patch_ids(tree, self.tree, ()))
        self._index = AnchorIndex(self.tree, anchors)
        self._chars = 0 if limits.state_chars is None else json_chars(self.tree)

    def take(self, number: int, raw: Any) -> OpVerdict:
        """Apply one op and return the verdict on it; a refused op changes nothing."""
        try:
            op = raw if isinstance(raw, Op) else parse_op(raw, number)
        except OpError as error:
            return build_refusal(number, error.op, Refusal.MALFORMED, error.reason)
        try:
            changes, notes = self._carry_out(op)
        except RefusedError as error:
            return build_refusal(number, str(op), error.code, error.reason, target=op.target, legal=error.legal)
        except ValueError as error:
            return build_refusal(number, str(op), Refusal.MALFORMED, str(error), target=op.target)
        return OpVerdict(
            number=number,
            op=str(op),
            outcome=Outcome.APPLIED,
            code=APPLIED,
            reason="; ".join(map(_describe_patch, changes)),
            notes=tuple(notes),
            target=op.target,
        )

    def _carry_out(self, op: Op) -> tuple[list[dict[str, Any]], list[Note]]:
        check_value_size(op, self._limits)
        sound = replace(op, value=copy_json_value(op.value))
        index = self._index
        tokens = locate(op.target, index, self.tree, may_create=op.verb in CREATING)
        check_depth(sound, tokens, self.tree)
        bench = OpPlanner(tree=self.tree, index=index, authority=self._authority)
        changes = propose(sound, tokens, bench)
        check_state_size(sound, changes, self.tree, self._chars, self._limits)
        if self._id_patch:
            self.patch, self._id_patch = [*self._id_patch], []
        left: dict[str, str] = {}
        for change in changes:
            left |= _reindex(index, self.tree, change)
            self._apply_patch(change)
        left = {name: label for name, label in left.items() if name not in index.places and name not in index.ambiguous}
        back = index.pop_returned_ids()
        for change in patch_removed_ids(self.tree, left, back):
            self._apply_patch(change)
        index.gone.update(left)
        for name in back:
            del index.gone[name]
        return changes, bench.notes

    @property
    def tree(self) -> Any:
        """The state after the ops so far."""
        return self._changing.tree

    def _apply_patch(self, change: PatchOp) -> None:
        if self._limits.state_chars is not None:
            self._chars += change_chars(self.tree, change)
        self._changing.play(change)
        self.patch.append(change)


def _patch_ids(bare: Any, named: Any, at: tuple[str, ...]) -> Iterator[PatchOp]:
    """Yield the patch that adds ids: `named` is `bare` with ids."""
    if bare is named:
        return
    if isinstance(bare, Mapping) and len(bare) < len(named):
        yield {"op": "replace", "path": join_pointer(at), "value": named}
        return
    pairs = bare.items() if isinstance(bare, Mapping) else enumerate(bare)
    for key, value in pairs:
        yield from _patch_ids(value, named[key], (*at, str(key)))


def _reindex(index: AnchorIndex, tree: Any, change: PatchOp) -> dict[str, str]:
    """Update the anchors for one change of `tree` (the state before it); return the removed anchors with their labels."""
    left: dict[str, str] = {}
    tokens = split_pointer(change["path"])
    above, key = tokens[:-1], tokens[-1]
    owner = look_up(tree, above)[1]
    in_list = isinstance(owner, list | tuple)
    if change["op"] == "add" and in_list:
        place = len(owner) if key == "-" else int(key)
        index.shift(above, owner, place, 1)
        tokens = (*above, str(place))
    else:
        dropped = index.drop(tokens, look_up(tree, tokens)[1])
        left = {name: label_of(look_up(tree, at)[1]) for name, at in dropped.items()}
        if change["op"] == "remove" and in_list:
            index.shift(above, owner, int(key) + 1, -1)
    if change["op"] != "remove" and "$meta" not in tokens:
        index.add(walk_anchors(change["value"], tokens))
    return left


def _describe_patch(change: PatchOp) -> str:
    path = change["path"]
    if change["op"] == "remove":
        return f"{path} is gone"
    return f"{path} is {'now' if change['op'] == 'replace' else 'new:'} {raw_text(change['value'])}"
