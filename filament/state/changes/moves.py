"""Turns one op (a change that a model asks for) into JSON Patch objects, if the rules allow the change.

This module changes nothing. The module `judge` applies the returned patch and records it, so the recorded patch is always the
applied one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from typing import Any

from filament.state.anchors import next_item_id, walk_anchors
from filament.state.changes.fitting import fit_number
from filament.state.changes.guards import check_changeable, check_growth, check_new_field, check_removal, clamp_number
from filament.state.changes.new_values import assign_new_ids, build_value, replace_value
from filament.state.changes.ops import ARITHMETIC, Op, Verb, check_json_number
from filament.state.conventions import (
    ANCHOR,
    ID,
    META,
    is_container,
    is_number,
    is_pair,
    is_scalar,
    label_of,
    meta_of,
)
from filament.state.descriptions import derive_text, describe_new_value
from filament.state.places import AnchorIndex, Spot, open_place, spot_at
from filament.state.pointer import Tokens, join_pointer, look_up
from filament.state.rules import shown_names
from filament.state.verdicts import Authority, Legal, Note, Refusal, RefusedError, find_nearest, list_choices

Patch = list[dict[str, Any]]

_EXACT = Context(prec=34, traps=[InvalidOperation, DivisionByZero, Overflow])


@dataclass(frozen=True, kw_only=True, slots=True)
class OpPlanner:
    """Working state while the ops of a turn are applied one by one."""

    tree: Any
    """The tree after the ops so far."""
    index: AnchorIndex
    notes: list[Note] = field(default_factory=list)
    """Remarks on the ops so far."""
    authority: Authority = Authority.MODEL
    """Giver of the ops."""

    def spot(self, tokens: Tokens) -> Spot:
        """Return the place at the path `tokens` in the tree, with the rules that hold for `authority`."""
        return spot_at(self.tree, tokens, self.authority)

    def fresh_ids(self, value: Any) -> Iterator[str]:
        """Yield new ids that do not occur in `value`, and were never in use in the tree."""
        return next_item_id((self.index.last_item_id, *(anchor for anchor, _ in walk_anchors(value))))


def propose(op: Op, tokens: Tokens, planner: OpPlanner) -> Patch:
    """Return the JSON Patch of `op`. `tokens` is the path to the place in the tree that `op` changes.

    Raises RefusedError if a rule forbids the change.
    """
    spot = planner.spot(tokens)
    if op.verb is Verb.DELETE:
        return _propose_delete(spot)
    check_changeable(spot)
    if op.verb in ARITHMETIC:
        return _propose_calculation(op, spot, planner)
    if op.verb is Verb.SET:
        return _propose_set(op, spot, planner, may_create=not op.target.startswith("/"))
    if op.verb is Verb.INSERT:
        return _propose_insert(op, spot, planner)
    listed = _list_spot(spot, planner)
    if op.verb is Verb.PUSH:
        return _propose_entry(listed, len(listed.old), op.value, planner)
    return _propose_pop(listed, op.value, planner)


def _propose_one(verb: str, tokens: Tokens, value: Any = None) -> dict[str, Any]:
    op = {"op": verb, "path": join_pointer(tokens)}
    return op if verb == "remove" else {**op, "value": value}


def _propose_set(op: Op, spot: Spot, planner: OpPlanner, *, may_create: bool) -> Patch:
    value = op.value
    if spot.part == "1":
        return _set_description(spot, value)
    if not spot.found:
        return [_propose_one("add", spot.tokens, _new_field(spot, value, planner, may_create=may_create))]
    if spot.part == "0" and not is_scalar(value):
        raise RefusedError(Refusal.WRONG_TYPE, f"{spot.key!r} takes a value here")
    result = replace_value(spot.rules, spot.field, spot.old, value, planner.notes, entry=spot.is_in_list)
    if spot.described:
        return [_propose_description(spot, result)]
    result = assign_new_ids(
        result, planner.fresh_ids(result), in_container=spot.rules.container and not spot.is_in_list
    )
    _check_anchors(result, planner.index, planner.index.list_under(spot.tokens, spot.old))
    declared = _declare_list(spot, result) if isinstance(spot.old, list | tuple) else []
    return [_propose_one("replace", spot.tokens, result), *declared]


def _new_field(spot: Spot, value: Any, planner: OpPlanner, *, may_create: bool) -> Any:
    if not isinstance(spot.owner, Mapping):
        reason = f"there is no {spot.key!r} to set; only mappings take new fields"
        names = tuple(shown_names(spot.holder, spot.rules))
        legal = Legal(field=spot.key, near=find_nearest(spot.key, names), choices=names)
        raise RefusedError(Refusal.UNKNOWN_PATH, reason, legal)
    if not may_create:
        raise _missing_error(spot, "replace; use `add` for a new field")
    check_new_field(spot.rules, spot.key, spot.owner)
    made = build_value(spot.rules, spot.key, value, planner.notes)
    listed = spot.rules.container and spot.rules.is_list(spot.key, made)
    made = assign_new_ids(made, planner.fresh_ids(made), in_container=listed)
    _check_anchors(made, planner.index)
    return made


def _set_description(spot: Spot, text: Any) -> Patch:
    if not isinstance(text, str):
        raise RefusedError(Refusal.WRONG_TYPE, "a description is text")
    if derive_text(spot.rules.description_rule(spot.field), spot.old[0]) is not None:
        reason = f"the description of {spot.key!r} follows its value ($meta.descriptions)"
        raise RefusedError(Refusal.RULED_DESCRIPTION, reason)
    return [_propose_one("replace", (*spot.tokens, "1"), text)]


def _propose_description(spot: Spot, result: Any) -> dict[str, Any]:
    """Propose the new state of a VWD: only its value if the description does not change."""
    if is_pair(result) and result[1] == spot.old[1]:
        return _propose_one("replace", (*spot.tokens, "0"), result[0])
    return _propose_one("replace", spot.tokens, result)


def _propose_calculation(op: Op, spot: Spot, planner: OpPlanner) -> Patch:
    if not spot.found:
        raise _missing_error(spot, "calculate with; SET makes a new field")
    old = spot.old[0] if spot.described else spot.old
    if not is_number(old) or spot.part == "1":
        numbers = tuple(
            key
            for key in shown_names(spot.holder, spot.rules)
            if is_number(value[0] if is_pair(value := spot.holder[key]) else value)
        )
        hint = f"; numbers here: {list_choices(numbers)}" if numbers else "; SET it"
        reason = f"{spot.key!r} is not a number to calculate with{hint}"
        raise RefusedError(Refusal.NOT_A_NUMBER, reason, Legal(field=spot.key, choices=numbers))
    amount = fit_number(spot.key, op.value, planner.notes)
    if not is_number(amount):
        reason = f"{op.verb} needs a number, not {type(op.value).__name__}"
        raise RefusedError(Refusal.NOT_A_NUMBER, reason, Legal(field=spot.key, kind="number"))
    number = calculate_number(op.verb, old, amount)
    if spot.is_in_list:
        return [_propose_one("replace", (*spot.tokens, "0") if spot.described else spot.tokens, number)]
    number = clamp_number(spot.rules, spot.field, number, planner.notes)
    if spot.rules.type_of(spot.field) == "integer" and not isinstance(number, int):
        reason = f"{spot.key!r} takes a whole number, and {number} is not one ($meta.types)"
        raise RefusedError(Refusal.WRONG_TYPE, reason, Legal(field=spot.field, kind="integer"))
    result = describe_new_value(spot.rules, spot.field, spot.old, number, planner.notes)
    return [_propose_description(spot, result) if spot.described else _propose_one("replace", spot.tokens, result)]


def calculate_number(verb: Verb, left: int | float, right: int | float) -> int | float:
    """Return the result of the arithmetic `verb` on `left` and `right`.

    Whole numbers give a whole number, except in a division with a remainder. Other numbers are calculated in decimal,
    so that 0.1 plus 0.2 is 0.3 in the prompt.

    Raises:
        RefusedError: for a division by zero, or a result beyond the range of numbers.
    """
    if right == 0 and verb is Verb.DIV:
        raise RefusedError(Refusal.DIVISION_BY_ZERO, "nothing can be divided by zero")
    try:
        if isinstance(left, int) and isinstance(right, int):
            if verb is not Verb.DIV:
                whole = left + right if verb is Verb.ADD else left - right if verb is Verb.SUB else left * right
                return check_json_number(whole)
            if left % right == 0:
                return check_json_number(left // right)
        a, b = (Decimal(float.__repr__(n) if isinstance(n, float) else int(n)) for n in (left, right))
        work: dict[Verb, Callable[[Decimal, Decimal], Decimal]] = {
            Verb.ADD: _EXACT.add,
            Verb.SUB: _EXACT.subtract,
            Verb.MUL: _EXACT.multiply,
            Verb.DIV: _EXACT.divide,
        }
        return check_json_number(float(work[verb](a, b)))
    except (ArithmeticError, ValueError) as error:
        raise RefusedError(Refusal.OUT_OF_RANGE, "the result is beyond the range of numbers") from error


def _propose_insert(op: Op, spot: Spot, planner: OpPlanner) -> Patch:
    if spot.part is not None:
        raise RefusedError(Refusal.PROTECTED, "nothing can be inserted into a value with a description")
    if op.target.startswith("/"):
        place = open_place(spot.key, spot.owner)
        if place is not None:
            return _propose_entry(planner.spot(spot.tokens[:-1]), place, op.value, planner)
    elif spot.found and (spot.rules.is_list(spot.field, spot.old) or is_container(spot.old)):
        listed = _list_spot(spot, planner)
        return _propose_entry(listed, len(listed.old), op.value, planner)
    return _propose_set(op, spot, planner, may_create=True)


def _list_spot(spot: Spot, planner: OpPlanner) -> Spot:
    """Return the spot of the list that PUSH and POP mean: the target itself, or for a mapping its `items` or its only
    list.
    """
    if not spot.found:
        raise _missing_error(spot, "PUSH to or POP from")
    if spot.part is not None or spot.described:
        reason = f"{spot.key!r} is a value with a description, not a list (name it in $meta.lists if it is one)"
        raise RefusedError(Refusal.NOT_A_LIST, reason, Legal(field=spot.key, choices=_lists_of(spot)))
    if isinstance(spot.old, list | tuple):
        return spot
    if spot.inner is None:
        lists = _lists_of(spot)
        hint = f"; lists here: {list_choices(lists)}" if lists else "; SET it"
        raise RefusedError(
            Refusal.NOT_A_LIST, f"{spot.key!r} is not a list{hint}", Legal(field=spot.key, choices=lists)
        )
    names = [key for key in shown_names(spot.old, spot.inner) if spot.inner.is_list(key, spot.old[key])]
    if "items" in names:
        names = ["items"]
    if len(names) != 1:
        has = f"has the lists {', '.join(names)}: name one" if names else "has no list"
        raise RefusedError(Refusal.NOT_A_LIST, f"{spot.key!r} {has}", Legal(field=spot.key, choices=tuple(names)))
    listed = planner.spot((*spot.tokens, names[0]))
    check_changeable(listed)
    return listed


def _propose_entry(spot: Spot, place: int, value: Any, planner: OpPlanner) -> Patch:
    """Propose a new entry at an index of a list; a mapping without an `id` gets one."""
    if spot.described or not isinstance(spot.old, list | tuple):
        raise RefusedError(Refusal.NOT_A_LIST, f"{spot.key!r} is not a list")
    check_changeable(spot)
    check_growth(spot.rules, spot.field)
    _check_entry_kind(spot, value)
    if isinstance(value, Mapping):
        name = value.get(ID, "made")
        if not isinstance(name, str) or not name:
            raise RefusedError(Refusal.WRONG_TYPE, "an id is text, and not empty")
        made = build_value(spot.rules, spot.field, value, planner.notes, entry=True)
        value = assign_new_ids(made, planner.fresh_ids(made), in_container=True)
    elif isinstance(value, list):
        value = build_value(spot.rules, spot.field, value, planner.notes, entry=True)
    _check_anchors(value, planner.index)
    last = place == len(spot.old)
    # A list of another length cannot have the shape of a VWD.
    grown = [*spot.old[:place], value, *spot.old[place:]] if len(spot.old) == 1 else []
    return [_propose_one("add", (*spot.tokens, "-" if last else str(place)), value), *_declare_list(spot, grown)]


def _propose_pop(spot: Spot, wanted: Any, planner: OpPlanner) -> Patch:
    if not spot.old:
        raise RefusedError(Refusal.NO_ENTRY, f"{spot.key!r} is empty")
    place = len(spot.old) - 1 if wanted is None else _find_entry(spot, wanted, planner.index)
    if place is None:
        ids = tuple(entry[ID] if isinstance(entry, Mapping) else entry for entry in spot.old if _is_named(entry))
        near = find_nearest(str(wanted), (str(each) for each in ids))
        hint = f"; did you mean {near!r}?" if near else f"; it has {list_choices(ids)}"
        reason = f"{spot.key!r} has no entry {wanted!r}: give its id, or the entry itself{hint}"
        raise RefusedError(Refusal.NO_ENTRY, reason, Legal(field=str(wanted), near=near, choices=ids))
    check_removal(spot.rules, spot.field, spot.old[place], entry=True)
    return [_propose_one("remove", (*spot.tokens, str(place))), *_declare_list(spot, _remove_entry(spot.old, place))]


def _is_named(entry: Any) -> bool:
    return isinstance(entry.get(ID), str) if isinstance(entry, Mapping) else is_scalar(entry)


def _check_entry_kind(spot: Spot, value: Any) -> None:
    """Raise RefusedError, in a typed state, for a bare value in a list of things."""
    things = [entry for entry in spot.old if isinstance(entry, Mapping)]
    if not spot.rules.typed or not things or len(things) < len(spot.old) or isinstance(value, Mapping):
        return
    names = tuple(name for name in things[0] if name not in (META, ID, ANCHOR))
    reason = f"the entries of {spot.key!r} have fields: give {{…}} with {list_choices(names)}"
    raise RefusedError(Refusal.WRONG_TYPE, reason, Legal(field=spot.key, choices=names, kind="mapping"))


def _missing_error(spot: Spot, use: str) -> RefusedError:
    """Return the refusal of an op at a missing field; it names the most similar one."""
    names = tuple(shown_names(spot.owner, spot.rules))
    near = find_nearest(spot.key, names)
    hint = f"; did you mean {near!r}?" if near else f"; there are {list_choices(names)}" if names else ""
    reason = f"there is no {spot.key!r} to {use.partition(';')[0] if near else use}{hint}"
    return RefusedError(Refusal.UNKNOWN_PATH, reason, Legal(field=spot.key, near=near, choices=names))


def _lists_of(spot: Spot) -> tuple[str, ...]:
    names = shown_names(spot.holder, spot.rules)
    return tuple(key for key in names if spot.rules.is_list(key, spot.holder[key]))


def _remove_entry(entries: Sequence[Any], place: int) -> Sequence[Any]:
    """Return a list to check once an entry is removed: the list itself if it could then have the shape of a VWD."""
    return [*entries[:place], *entries[place + 1 :]] if len(entries) == 3 else []


def _find_entry(spot: Spot, wanted: Any, index: AnchorIndex) -> int | None:
    """Return the index of the entry with this id (or anchor), otherwise of the first that equals `wanted`."""
    entries = spot.old
    name = wanted.get(ID) if isinstance(wanted, Mapping) else wanted
    if isinstance(name, str) and (name in index.places or name in index.ambiguous):
        for place, entry in enumerate(entries):
            if isinstance(entry, Mapping) and name in (entry.get(ID), entry.get(ANCHOR)):
                return place
    for place, entry in enumerate(entries):
        if type(entry) is type(wanted) and entry == wanted:
            return place
    return None


def _propose_delete(spot: Spot) -> Patch:
    check_changeable(spot)
    if spot.part is not None:
        reason = "the parts of a value with a description are not deleted one by one; name the field"
        raise RefusedError(Refusal.PROTECTED, reason)
    if not spot.found:
        raise _missing_error(spot, "delete")
    check_removal(spot.rules, spot.field, spot.old, entry=spot.is_in_list)
    removal = _propose_one("remove", spot.tokens)
    if not spot.is_in_list:
        return [removal]
    return [removal, *_declare_list(spot, _remove_entry(spot.owner, int(spot.key)))]


def _declare_list(spot: Spot, grown: Any) -> Patch:
    """Propose to name the list in `$meta.lists`, if it now has the shape of a VWD: a list stays a list."""
    if not is_pair(grown) or not spot.rules.may_describe(spot.field):
        return []
    meta, at = meta_of(spot.holder), (*spot.holder_tokens, META)
    if META not in spot.holder:
        return [_propose_one("add", at, {"lists": [spot.field]})]
    if isinstance(meta.get("lists"), list | tuple):
        return [_propose_one("add", (*at, "lists", "-"), spot.field)]
    return [_propose_one("add", (*at, "lists"), [spot.field])]


def _check_anchors(value: Any, index: AnchorIndex, free: Collection[str] = ()) -> None:
    """Raise RefusedError for a value whose anchors are in use elsewhere, repeat, or named something else before.

    `free` are the anchors of the value that it replaces.
    """
    if is_scalar(value):
        return
    seen: dict[str, Tokens] = {}
    for anchor, tokens in walk_anchors(value):
        taken = anchor in index.places and anchor not in free
        if taken or seen.setdefault(anchor, tokens) != tokens:
            reason = f"the id {anchor!r} is taken; choose another, or none to be given one"
            raise RefusedError(Refusal.ID_TAKEN, reason)
        if anchor in index.gone and index.gone[anchor] != label_of(look_up(value, tokens)[1]):
            named = index.gone[anchor] or "another thing"
            reason = f"the id {anchor!r} was that of {named!r}; choose another, or none to be given one"
            raise RefusedError(Refusal.ID_RETIRED, reason)
