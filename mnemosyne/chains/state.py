"""Applies a turn's ops (changes of the state) to the state tree, and tests story conditions on the tree.

Flat paths, anchors and values with a description mean the same in conditions and actions as in a model's reply,
because the rules of `filament` read all of them. Stores call this module to apply ops; the module must not import a
store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar, cast

from filament.state.anchors import collect_anchors, with_anchors
from filament.state.changes.judge import AppliedOps, JudgedOps, judge_ops
from filament.state.changes.sizes import NO_LIMITS, OpLimits
from filament.state.conventions import ANCHOR, IDENTITY, META, is_pair
from filament.state.display import without_hidden
from filament.state.places import AnchorIndex, locate, spot_at
from filament.state.pointer import look_up
from filament.state.verdicts import Authority, OpVerdict
from mnemosyne.core.codec import encode
from mnemosyne.core.errors import StateOpError
from mnemosyne.schema.memory import Comparison, Condition

T = TypeVar("T")

_PLAIN_PATH = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
"""Paths whose names JSON writes without escapes."""

_ANCHOR_KEYS = tuple(b'"%b":' % key.encode("ascii") for key in IDENTITY)
_NO_ANCHORS = AnchorIndex({})
_MOST_VIEWS = 32
_views: dict[int, StateView] = {}
_lock = Lock()
_ORDER = frozenset({Comparison.LT, Comparison.LE, Comparison.GT, Comparison.GE})


def judge_reply_ops(
    state: Mapping[str, Any],
    ops: Sequence[Any],
    anchors: Mapping[str, str] | None = None,
    lost: Sequence[OpVerdict] = (),
    *,
    limits: OpLimits = NO_LIMITS,
    authority: Authority = Authority.MODEL,
) -> JudgedOps:
    """Return the verdict on each op of a reply, and the state after the ops. `state` is not changed.

    Either all ops are applied or none: if one is refused, none takes effect. No op makes this function raise.

    Args:
        ops: `Op` values, or ops as JSON in one of two forms (`["SET", "hero.health", 80]`, `{"op": "replace", …}`).
        anchors: The anchors that the prompt of the turn showed, mapped to their JSON Pointers.
        lost: Verdicts on ops of the reply that could not be read.
        limits: Limits on the ops, their values and the state.
        authority: Giver of the ops.
    """
    return judge_ops(state, ops, anchors, lost=lost, limits=limits, authority=authority)


def apply_reply_ops(
    state: Mapping[str, Any],
    ops: Sequence[Any],
    anchors: Mapping[str, str] | None = None,
    *,
    limits: OpLimits = NO_LIMITS,
    authority: Authority = Authority.MODEL,
) -> AppliedOps:
    """Return the tree after the ops, and the JSON Patch that leads to the tree.

    `judge_reply_ops` explains the arguments. Either all ops are applied, or an error is raised.

    Raises:
        StateOpError: for the first op that is refused, with its place, reason and code.
    """
    judged = judge_reply_ops(state, ops, anchors, limits=limits, authority=authority)
    if (bad := judged.refused) is not None:
        raise StateOpError(bad.number, bad.op, bad.reason, bad.code)
    return AppliedOps(tree=judged.tree, patch=judged.patch)


def apply_action_ops(state: Mapping[str, Any], ops: Sequence[Any], *, state_chars: int | None = None) -> AppliedOps:
    """Return the tree after the ops of an author's action, and the JSON Patch that leads to the tree.

    The ops have the authority of the author, and no anchors of a prompt. `state_chars` limits the size of the state
    after each op (None: no limit). The ops and their values have no limit.

    Raises:
        StateOpError: for the first op that is refused.
    """
    return apply_reply_ops(state, ops, limits=OpLimits(state_chars=state_chars), authority=Authority.AUTHOR)


class StateView:
    """A state tree with the results that depend only on the tree, each computed when it is first needed.

    Create it with `view_state`.
    """

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self.tree = tree
        self._read: dict[str, tuple[bool, Any]] = {}
        self._derived: dict[Callable[[Mapping[str, Any]], Any], Any] = {}

    def derive(self, what: Callable[[Mapping[str, Any]], T]) -> T:
        """Return `what(tree)`, which is computed at the first call. `what` must depend on nothing but the tree."""
        if what not in self._derived:
            self._derived[what] = what(self.tree)
        return cast("T", self._derived[what])

    @cached_property
    def anchored(self) -> Mapping[str, Any]:
        """The tree with an id in every mapping of a list (`filament.with_anchors`)."""
        anchored: Mapping[str, Any] = with_anchors(self.tree)
        return anchored

    @cached_property
    def shown(self) -> Mapping[str, Any]:
        """The tree `anchored` without its hidden parts."""
        shown: Mapping[str, Any] = without_hidden(self.anchored)
        return shown

    @cached_property
    def anchors(self) -> Mapping[str, str]:
        """The JSON Pointer of each anchor (`id` or `_anchor`) in `shown`, in reading order.

        The pointers lead through the complete tree, hidden parts included. Raises AnchorError if two mappings have the
        same anchor.
        """
        anchors = collect_anchors(self.anchored)
        return anchors if self.shown is self.anchored else {name: anchors[name] for name in collect_anchors(self.shown)}

    @cached_property
    def index(self) -> AnchorIndex:
        """The index of the tree's anchors."""
        return AnchorIndex(self.tree)

    @cached_property
    def _json(self) -> bytes:
        return encode(self.tree)

    def _index_for(self, path: str) -> AnchorIndex:
        """Return the anchors that decide the target of a path: none for most paths, which begin at the root.

        A name that occurs nowhere in the tree's JSON as an `id` or `_anchor` is not an anchor, and this search costs a
        hundredth of walking the tree.
        """
        if "index" in self.__dict__ or _PLAIN_PATH.fullmatch(path) is None:
            return self.index
        names = path.split(".")
        for size in range(len(names)):
            name = ".".join(names[: size + 1]).encode("ascii")
            if any(b'%b"%b"' % (key, name) in self._json for key in _ANCHOR_KEYS):
                return self.index
        return _NO_ANCHORS

    def read(self, path: str) -> tuple[bool, Any]:
        """Return (True, value) for the value at a flat `path`, or (False, None) if there is none.

        For a value with a description, the result is the value without the description.
        """
        if path not in self._read:
            self._read[path] = self._find_value(path)
        return self._read[path]

    def _find_value(self, path: str) -> tuple[bool, Any]:
        try:
            spot = spot_at(self.tree, locate(path, self._index_for(path), self.tree, may_create=False))
        except ValueError:
            return False, None
        if not spot.found:
            return False, None
        if spot.part is not None:
            return True, spot.old[int(spot.part)]
        return True, spot.old[0] if spot.described else spot.old

    def describe(self, path: str) -> str:
        """Return `name: value (description)` for the value at a flat `path`; `name` is the last part of the path.

        The result is '' if nothing is there, or if a mapping or list is there.
        """
        try:
            spot = spot_at(self.tree, locate(path, self._index_for(path), self.tree, may_create=False))
        except ValueError:
            return ""
        value, text = spot.old if spot.found and spot.described else (spot.old, "")
        if not spot.found or spot.part is not None or value is None or isinstance(value, Mapping | list):
            return ""
        return f"{path.rpartition('.')[2]}: {value}{f' ({text})' if text else ''}"

    def holds(self, condition: Condition) -> bool:
        """Return whether `condition` is true in this state. A condition whose path does not exist is false."""
        found, value = self.read(condition.path)
        return found and compare(value, condition.op, condition.value)

    def find(self, anchor: str) -> Mapping[str, Any] | None:
        """Return the mapping whose `id` or `_anchor` is `anchor`, or None if there is none, or if two mappings have it."""
        if anchor in self.index.ambiguous or anchor not in self.index.places:
            return None
        node = look_up(self.tree, self.index.places[anchor])[1]
        return node if isinstance(node, Mapping) else None


def view_state(state: Mapping[str, Any]) -> StateView:
    """Return the view of `state`; the views of the states used last are cached.

    `state` must not be changed afterwards.
    """
    with _lock:
        view = _views.pop(id(state), None)
        # An id is used again once its object is gone.
        if view is None or view.tree is not state:
            view = StateView(state)
        _views[id(state)] = view
        if len(_views) > _MOST_VIEWS:
            del _views[next(iter(_views))]
    return view


def forget_views() -> None:
    """Forget the cached views of all states. An erasure calls this."""
    with _lock:
        _views.clear()


def read_value(state: Mapping[str, Any] | StateView, path: str) -> tuple[bool, Any]:
    """Return (True, value) for the value at a flat `path`, or (False, None) if there is none; see `StateView.read`."""
    return _view_of(state).read(path)


def condition_holds(condition: Condition, state: Mapping[str, Any] | StateView) -> bool:
    """Return whether `condition` is true in `state`; see `StateView.holds`."""
    return _view_of(state).holds(condition)


def find_anchor(state: Mapping[str, Any] | StateView, anchor: str) -> Mapping[str, Any] | None:
    """Return the mapping whose `id` or `_anchor` is `anchor`. Return None if there is none, or if two mappings have it."""
    return _view_of(state).find(anchor)


def compare(value: Any, op: Comparison, wanted: Any) -> bool:
    """Return whether `value`, from a state, passes the comparison `op` with `wanted`, the value of a condition.

    Kinds do not mix: true does not equal 1, "5" does not equal 5, and only two numbers or two texts have an order.
    `in` is true if `value` is an element of the list `wanted`, or a part of the text `wanted`. `contains` is true if
    `wanted` is an element of the list `value`, the id of one of its elements, a part of the text `value`, or a field of the
    mapping `value`.
    """
    if op is Comparison.EQ:
        return _is_same(value, wanted)
    if op is Comparison.NE:
        return not _is_same(value, wanted)
    if op is Comparison.IN:
        return _contains(wanted, value)
    if op is Comparison.CONTAINS:
        return _contains(value, wanted)
    return _compare_order(value, op, wanted)


def _view_of(state: Mapping[str, Any] | StateView) -> StateView:
    return state if isinstance(state, StateView) else view_state(state)


def _is_same(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(_is_same(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right)


def _compare_order(value: Any, op: Comparison, wanted: Any) -> bool:
    texts = isinstance(value, str) and isinstance(wanted, str)
    if op not in _ORDER or not (texts or (_is_number(value) and _is_number(wanted))):
        return False
    if op is Comparison.LT:
        return bool(value < wanted)
    if op is Comparison.LE:
        return bool(value <= wanted)
    return bool(value > wanted) if op is Comparison.GT else bool(value >= wanted)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _contains(whole: Any, part: Any) -> bool:
    if isinstance(whole, str):
        return isinstance(part, str) and part in whole
    if isinstance(whole, list | tuple):
        return any(_is_entry(item, part) for item in whole)
    if not isinstance(whole, Mapping):
        return False
    if isinstance(part, str) and part in whole and part not in (META, ANCHOR):
        return True
    if ANCHOR in whole:
        return any(_contains(field, part) for field in whole.values() if isinstance(field, list | tuple))
    return any(isinstance(field, Mapping) and _is_same(field.get("id"), part) for field in whole.values())


def _is_entry(item: Any, part: Any) -> bool:
    if isinstance(item, Mapping):
        return part is not None and _is_same(item.get("id"), part)
    return _is_same(item, part) or (is_pair(item) and _is_same(item[0], part))
