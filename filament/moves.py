"""One op on one tree as JSON Patch objects: what each verb means, within the rules of `guards`.

Nothing is changed here. `ops` applies what this room proposes, so a patch is right by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from typing import Any

from filament.anchors import next_item_id, walk_anchors
from filament.described import ANCHOR, ID, META, anchors_of, is_list, is_pair, is_scalar, meta_of, plain_lists
from filament.guards import (
    check_changeable,
    check_growth,
    check_limits,
    check_new_field,
    check_removal,
    clamp,
    is_number,
    settle,
)
from filament.places import AnchorIndex, RefusedError, Spot, open_place, spot_at
from filament.pointer import Tokens, join_pointer
from filament.verbs import ARITHMETIC, Op, Verb, checked_number

Patch = list[dict[str, Any]]

_EXACT = Context(prec=34, traps=[InvalidOperation, DivisionByZero, Overflow])


def propose(op: Op, tokens: Tokens, tree: Any, index: AnchorIndex) -> Patch:
    """Return the patch of an op whose target was located at `tokens`; RefusedError if a rule forbids it."""
    spot = spot_at(tree, tokens)
    check_changeable(spot)
    if op.verb in ARITHMETIC:
        return _calculate(op, spot)
    if op.verb is Verb.SET:
        return _set(op, spot, index, may_create=not op.target.startswith("/"))
    if op.verb is Verb.DELETE:
        return _delete(spot)
    if op.verb is Verb.INSERT:
        return _insert(op, spot, tree, index)
    listed = _list_spot(spot, tree)
    if op.verb is Verb.PUSH:
        return _grow(listed, len(listed.old), op.value, index)
    return _pop(listed, op.value)


def _one(verb: str, tokens: Tokens, value: Any = None) -> dict[str, Any]:
    op = {"op": verb, "path": join_pointer(tokens)}
    return op if verb == "remove" else {**op, "value": value}


def _set(op: Op, spot: Spot, index: AnchorIndex, *, may_create: bool) -> Patch:
    value = op.value
    if spot.part == "1":
        if not isinstance(value, str):
            raise RefusedError("a description is text")
        return [_one("replace", (*spot.tokens, "1"), value)]
    if not spot.found:
        if not isinstance(spot.owner, Mapping):
            raise RefusedError(f"there is no {spot.key!r} to set; only mappings take new fields")
        if not may_create:
            raise RefusedError(f"there is no {spot.key!r} to replace; use `add` for a new field")
        check_new_field(spot.owner, spot.key, value)
        _check_anchors(value, index, spot.tokens)
        return [_one("add", spot.tokens, value)]
    if spot.described and is_scalar(value):
        check_limits(spot.owner, spot.key, value)
        return [_one("replace", (*spot.tokens, "0"), value)]
    if spot.part == "0":
        raise RefusedError(f"{spot.key!r} takes a value here")
    settled = settle(spot.owner, spot.key, spot.old, value, described=spot.described)
    _check_anchors(settled, index, spot.tokens)
    declared = _declare(spot, settled) if isinstance(spot.old, list | tuple) and not spot.described else []
    return [_one("replace", spot.tokens, settled), *declared]


def _calculate(op: Op, spot: Spot) -> Patch:
    old = spot.old[0] if spot.described else spot.old
    if not spot.found or not is_number(old) or spot.part == "1":
        raise RefusedError(f"{spot.key!r} is not a number to calculate with")
    if not is_number(op.value):
        raise RefusedError(f"{op.verb} needs a number, not {type(op.value).__name__}")
    number = clamp(spot.owner, spot.key, calculate(op.verb, old, op.value))
    return [_one("replace", (*spot.tokens, "0") if spot.described else spot.tokens, number)]


def calculate(verb: Verb, left: int | float, right: int | float) -> int | float:
    """Return the result of an arithmetic verb; RefusedError for a division by zero or a number beyond range.

    Whole numbers stay whole, a division too if it comes out even; others are calculated in decimal, so that 0.1 plus 0.2
    is 0.3 in the prompt.
    """
    if right == 0 and verb is Verb.DIV:
        raise RefusedError("nothing can be divided by zero")
    try:
        if isinstance(left, int) and isinstance(right, int):
            if verb is not Verb.DIV:
                whole = left + right if verb is Verb.ADD else left - right if verb is Verb.SUB else left * right
                return checked_number(whole)
            if left % right == 0:
                return checked_number(left // right)
        a, b = (Decimal(float.__repr__(n) if isinstance(n, float) else int(n)) for n in (left, right))
        work: dict[Verb, Callable[[Decimal, Decimal], Decimal]] = {
            Verb.ADD: _EXACT.add,
            Verb.SUB: _EXACT.subtract,
            Verb.MUL: _EXACT.multiply,
            Verb.DIV: _EXACT.divide,
        }
        return checked_number(float(work[verb](a, b)))
    except (ArithmeticError, ValueError) as error:
        raise RefusedError("the result is beyond the range of numbers") from error


def _insert(op: Op, spot: Spot, tree: Any, index: AnchorIndex) -> Patch:
    if spot.part is not None:
        raise RefusedError("nothing can be inserted into a value with a description")
    if op.target.startswith("/"):
        place = open_place(spot.key, spot.owner)
        if place is not None:
            return _grow(spot_at(tree, spot.tokens[:-1]), place, op.value, index)
    elif spot.found and (is_list(spot.holder, spot.field, spot.old) or _is_container(spot.old)):
        listed = _list_spot(spot, tree)
        return _grow(listed, len(listed.old), op.value, index)
    return _set(op, spot, index, may_create=True)


def _is_container(node: Any) -> bool:
    return isinstance(node, Mapping) and isinstance(node.get(ANCHOR), str)


def _list_spot(spot: Spot, tree: Any) -> Spot:
    """Return the spot of the list that PUSH and POP mean: the target, or of a mapping its `items` or its only list."""
    if not spot.found:
        raise RefusedError(f"there is no {spot.key!r} to PUSH to or POP from")
    if spot.part is not None or spot.described:
        raise RefusedError(
            f"{spot.key!r} is a value with a description, not a list (name it in $meta.lists if it is one)"
        )
    if isinstance(spot.old, list | tuple):
        return spot
    if not isinstance(spot.old, Mapping):
        raise RefusedError(f"{spot.key!r} is not a list")
    names = [key for key, value in spot.old.items() if key != META and is_list(spot.old, key, value)]
    if "items" in names:
        names = ["items"]
    if len(names) != 1:
        has = f"has the lists {', '.join(names)}: name one" if names else "has no list"
        raise RefusedError(f"{spot.key!r} {has}")
    listed = spot_at(tree, (*spot.tokens, names[0]))
    check_changeable(listed)
    return listed


def _grow(spot: Spot, place: int, value: Any, index: AnchorIndex) -> Patch:
    """Propose a new entry at a place of a list; a mapping without `id` is given one."""
    if spot.described or not isinstance(spot.old, list | tuple):
        raise RefusedError(f"{spot.key!r} is not a list")
    check_changeable(spot)
    check_growth(spot)
    if isinstance(value, Mapping):
        name = value.get(ID)
        if ID not in value:
            value = {ID: next(next_item_id(index.places)), **value}
        elif not isinstance(name, str) or not name:
            raise RefusedError("an id is text, and not empty")
    _check_anchors(value, index, None)
    last = place == len(spot.old)
    grown = [*spot.old[:place], value, *spot.old[place:]]
    return [_one("add", (*spot.tokens, "-" if last else str(place)), value), *_declare(spot, grown)]


def _pop(spot: Spot, wanted: Any) -> Patch:
    if not spot.old:
        raise RefusedError(f"{spot.key!r} is empty")
    place = len(spot.old) - 1 if wanted is None else _find(spot.old, wanted)
    if place is None:
        raise RefusedError(f"{spot.key!r} has no entry {wanted!r}: give its id, or the entry itself")
    check_removal(None, str(place), spot.old[place])
    left = [*spot.old[:place], *spot.old[place + 1 :]]
    return [_one("remove", (*spot.tokens, str(place))), *_declare(spot, left)]


def _find(entries: Any, wanted: Any) -> int | None:
    """Return the place of the entry with this id (or anchor), else of the first that equals `wanted`."""
    name = wanted.get(ID) if isinstance(wanted, Mapping) else wanted
    for place, entry in enumerate(entries):
        if isinstance(name, str) and isinstance(entry, Mapping) and name in anchors_of(entry):
            return place
    for place, entry in enumerate(entries):
        if type(entry) is type(wanted) and entry == wanted:
            return place
    return None


def _delete(spot: Spot) -> Patch:
    if spot.part is not None:
        raise RefusedError("the parts of a value with a description are not deleted one by one; name the field")
    if not spot.found:
        raise RefusedError(f"there is no {spot.key!r} to delete")
    check_removal(spot.owner, spot.key, spot.old)
    removal = _one("remove", spot.tokens)
    if not isinstance(spot.owner, list | tuple):
        return [removal]
    place = int(spot.key)
    left = [*spot.owner[:place], *spot.owner[place + 1 :]]
    return [removal, *_declare(spot, left)]


def _declare(spot: Spot, grown: list[Any]) -> Patch:
    """Propose to name the list in `$meta.lists`, if it now has the shape of a VWD: a list stays a list."""
    if not is_pair(grown) or spot.field in plain_lists(spot.holder):
        return []
    meta, at = meta_of(spot.holder), (*spot.holder_tokens, META)
    if META not in spot.holder:
        return [_one("add", at, {"lists": [spot.field]})]
    if isinstance(meta.get("lists"), list | tuple):
        return [_one("add", (*at, "lists", "-"), spot.field)]
    return [_one("add", (*at, "lists"), [spot.field])]


def _check_anchors(value: Any, index: AnchorIndex, at: Tokens | None) -> None:
    """Refuse a value whose anchors are taken elsewhere or repeat; what stood at `at` goes, so its anchors are free."""
    if is_scalar(value):
        return
    free = index.under(at) if at is not None else set()
    seen: dict[str, Tokens] = {}
    for anchor, tokens in walk_anchors(value):
        taken = anchor in index.places and anchor not in free
        if taken or seen.setdefault(anchor, tokens) != tokens:
            raise RefusedError(f"the id {anchor!r} is taken; choose another, or none to be given one")
