"""Whether an op of an action could ever run on the state tree: refused is only what can never succeed."""

from __future__ import annotations

from typing import Any

from mnemosyne.plain import Path as KeyPath
from mnemosyne.world.faults import FaultList, Place, called
from mnemosyne.world.state import ANCHOR_KEYS, StateTree, growing_list, is_pair, lists_of, meta_of, plain_value

_ARITHMETIC = ("ADD", "SUB", "MUL", "DIV")
_GROWTH = ("PUSH", "POP")


def check_op(op: list[Any], tree: StateTree, place: Place, faults: FaultList) -> None:
    """Note what keeps `[VERB, path, value?]` from ever running on `tree`."""
    verb, flat = op[0], op[1]
    path = tree.find(flat)
    if path is None:
        near = tree.nearest(flat) or "; add it to the state with its starting value"
        faults.add(place, f"changes {flat!r}, which is nowhere in the state{near}")
        return
    wrong = _protected(verb, path, tree) or _unfit(op, path, tree)
    if wrong:
        faults.add(place, wrong)


def _protected(verb: str, path: KeyPath, tree: StateTree) -> str | None:
    name, parent = path[-1], tree.at(path[:-1])
    meta = meta_of(parent)
    if name in ANCHOR_KEYS or str(name).startswith("$"):
        return f"changes {name!r}, which names the thing itself; change another field"
    if meta.get("updatable") is False:
        return f"changes {name!r} of a mapping that its $meta says is not updatable; choose another or change $meta"
    if verb == "DELETE" and isinstance(meta.get("necessary"), list) and name in meta["necessary"]:
        return f"deletes {name!r}, which $meta calls necessary; set it instead"
    return None


def _unfit(op: list[Any], path: KeyPath, tree: StateTree) -> str | None:
    verb, flat = op[0], op[1]
    parent, node = tree.at(path[:-1]), tree.at(path)
    is_list = isinstance(node, list) and (path[-1] in lists_of(parent) or not is_pair(node))
    if verb in _GROWTH:
        if not is_list and growing_list(node) is None:
            return f"can {verb} only on a list or a container with one, but {flat!r} is {_kind(node)}; choose the list"
        return None
    if verb in _ARITHMETIC:
        if not _is_number(plain_value(node, is_list=is_list)):
            return f"can {verb} only on a number, but {flat!r} is {_kind(node)}; use SET"
        if not _is_number(op[2]):
            return f"has {op[2]!r} as its value; {verb} takes a number without quotes"
        if verb == "DIV" and op[2] == 0:
            return "divides by 0; divide by something else"
        return None
    return _outside(op, path, parent) if verb == "SET" else None


def _outside(op: list[Any], path: KeyPath, parent: Any) -> str | None:
    limits = meta_of(parent).get("limits")
    bounds = limits.get(path[-1]) if isinstance(limits, dict) else None
    if not isinstance(bounds, list) or len(bounds) != 2 or not all(_is_number(each) for each in bounds):
        return None
    if not _is_number(op[2]) or not bounds[0] <= op[2] <= bounds[1]:
        return f"sets {op[1]!r} to {op[2]!r}, outside its limits {bounds[0]}..{bounds[1]}; stay inside them"
    return None


def _kind(node: Any) -> str:
    return called(plain_value(node))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
