"""Checks whether the rules of a mapping allow a change: types, limits, updatable, extensible and necessary.

The rules of a mapping come from its `$meta`. A thing is a mapping with an `id` or `_anchor`, by which ops address it. A
template is a mapping with example fields and rules, which all things in a container follow. No check changes the state. A failed
check raises RefusedError with a code and a reason, so that a model or an author can correct the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from filament.state.conventions import IDENTITY, META, is_number, is_pair, is_scalar, same_scalar
from filament.state.places import Spot
from filament.state.rules import ANY, OR_NULL, Rules, shown_names
from filament.state.verdicts import Legal, Note, Refusal, RefusedError, Remark, find_nearest, list_choices

_LEAST_COMPARED = 5
_CALLED = {
    "text": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "list": "a list",
    "mapping": "a mapping",
    ANY: "a single value",
}


def has_type(word: str | tuple[Any, ...], value: Any) -> bool:
    """Return whether `value` has the type `word`. A tuple in `word` lists the values to choose from.

    `value` is a plain value, without a description.
    """
    if isinstance(word, tuple):
        return is_scalar(value) and any(same_scalar(choice, value) for choice in word)
    if word.endswith(OR_NULL):
        return value is None or has_type(word.removesuffix(OR_NULL), value)
    if word == ANY:
        return is_scalar(value)
    if word == "number":
        return is_number(value)
    if word == "integer":
        return is_number(value) and isinstance(value, int)
    kinds: dict[str, Any] = {"text": str, "boolean": bool, "list": list | tuple, "mapping": Mapping}
    return isinstance(value, kinds[word])


def type_text(word: str | tuple[Any, ...]) -> str:
    """Return the type `word` in words, for a sentence."""
    if isinstance(word, tuple):
        return f"one of {list_choices(word)}"
    return _CALLED[word.removesuffix(OR_NULL)] + (" or null" if word.endswith(OR_NULL) else "")


def limits_text(limits: tuple[float | None, float | None]) -> str:
    """Return the pair (lowest, highest) as text, such as `0 to 100`. None in the pair means that there is no limit."""
    low, high = limits
    return f"{'-∞' if low is None else low} to {'∞' if high is None else high}"


def check_limits(rules: Rules, field: str, plain: Any) -> None:
    """Raise RefusedError if `plain`, a value without its description, is outside the limits of `field`.

    If `field` has limits, a value that is not a number is refused, too.
    """
    limits = rules.limits_of(field)
    if limits is not None and not is_number(plain):
        reason = f"{field!r} takes a number from {limits_text(limits)}"
        raise RefusedError(Refusal.WRONG_TYPE, reason, Legal(field=field, kind="number", limits=limits))
    limits = rules.bounds_of(field)
    low, high = limits
    if is_number(plain) and ((low is not None and plain < low) or (high is not None and plain > high)):
        reason = f"{plain} is outside the limits of {field!r}, {limits_text(limits)}"
        raise RefusedError(Refusal.OUTSIDE_LIMITS, reason, Legal(field=field, limits=limits))


def clamp_number(rules: Rules, field: str, number: int | float, notes: list[Note]) -> int | float:
    """Return `number` or, if it is outside the limits of `field`, the nearer limit.

    If the number is changed, a remark is added to `notes`.
    """
    limits = rules.bounds_of(field)
    low, high = limits
    kept = number
    if low is not None and kept < low:
        kept = low
    if high is not None and kept > high:
        kept = high
    if kept != number:
        field_name = f"{number} was set to {kept}: {field!r} takes {limits_text(limits)}."
        notes.append(Note(code=Remark.CLAMPED, field=field, text=field_name))
    return kept


def check_changeable(spot: Spot) -> None:
    """Raise RefusedError if the value at the place `spot` must not be changed, or is the `id` or `_anchor` of a thing."""
    if spot.is_frozen:
        raise _frozen_error(spot.rules, spot.key, spot.holder)
    if spot.key in IDENTITY and isinstance(spot.owner, Mapping):
        raise RefusedError(
            Refusal.PROTECTED, f"the {spot.key!r} of a thing cannot be changed", Legal(choices=_fields_of(spot.owner))
        )


def check_new_field(rules: Rules, field: str, siblings: Iterable[str] = ()) -> None:
    """Raise RefusedError if `rules` do not allow the new field `field` in their mapping.

    A new field is allowed if the rules declare it, or if the mapping may be extended. In a typed state (values keep their
    type), a name that looks like a misspelt existing field is refused. `siblings` are the existing fields.
    """
    held = siblings if isinstance(siblings, Mapping) else dict.fromkeys(siblings)
    is_like = rules.typed and is_misspelt(field, find_nearest(field, [name for name in held if name != META]))
    if rules.may_update(field) and (rules.expects_field(field) or (rules.extensible and not is_like)):
        # Most new fields are legal; the hidden fields are looked up only for the others.
        return
    names = tuple(shown_names(held, rules))
    near = find_nearest(field, names)
    hint = f"; did you mean {near!r}?" if near else f"; it has {list_choices(names)}" if names else ""
    legal = Legal(field=field, near=near, choices=names)
    if rules.expects_field(field):
        pass
    elif not rules.extensible:
        raise RefusedError(
            Refusal.NOT_EXTENSIBLE, f"no new field {field!r} may be added here ($meta.extensible){hint}", legal
        )
    elif rules.typed and is_misspelt(field, near):
        reason = f"{field!r} is very like the field {near!r}; name that, or call a new field something else"
        raise RefusedError(Refusal.NOT_EXTENSIBLE, reason, legal)
    if not rules.may_update(field):
        raise _frozen_error(rules, field, names)


def is_misspelt(name: str, known: str) -> bool:
    """Return whether `name` is `known` with one letter added, left out or changed, or with two letters swapped.

    Only names of ASCII letters with at least five characters are compared. Names that differ in a digit are different
    names.
    """
    if name == known or min(len(name), len(known)) < _LEAST_COMPARED or not (name + known).isascii():
        return False
    start = 0
    while start < min(len(name), len(known)) and name[start] == known[start]:
        start += 1
    left, right = name[start:], known[start:]
    ends = {(left[1:], right), (left, right[1:]), (left[1:], right[1:])}
    swapped = len(left) > 1 and left[:2] == right[1::-1] and left[2:] == right[2:]
    if any(character.isdigit() for character in left[:1] + right[:1]):
        return False
    return swapped or any(one == other for one, other in ends)


def check_growth(rules: Rules, field: str) -> None:
    """Raise RefusedError if the list in `field` must not grow, because its mapping must not be extended."""
    if rules.closed:
        reason = f"{field!r} may not grow ($meta.extensible); SET, POP or change what is in it"
        raise RefusedError(Refusal.NOT_EXTENSIBLE, reason, Legal(field=field))


def check_transition(rules: Rules, field: str, old: Any, new: Any) -> None:
    """Raise RefusedError if the value `new` must not follow the value `old` in `field`."""
    followers = rules.followers_of(field, old)
    if followers is None or old == new or new in followers:
        return
    may = f"only {list_choices(followers)} may follow" if followers else "it stays so"
    reason = f"{field!r} is {old!r}, and {new!r} may not follow; {may}"
    raise RefusedError(Refusal.ILLEGAL_TRANSITION, reason, Legal(field=field, choices=followers))


def _frozen_error(rules: Rules, field: str, names: Iterable[str]) -> RefusedError:
    known = (name for name in names if name not in (META, *IDENTITY, field) and not rules.hides(name))
    free = tuple(name for name in known if rules.may_update(name))
    hint = f"; you may change {list_choices(free)}" if free else ""
    reason = f"{field!r} may not be updated ($meta.updatable){hint}"
    return RefusedError(Refusal.NOT_UPDATABLE, reason, Legal(field=field, choices=free))


def _fields_of(node: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in shown_names(node) if name not in IDENTITY)


def check_removal(rules: Rules, field: str, value: Any, *, entry: bool = False) -> None:
    """Raise RefusedError if `value` must not be removed from `field`.

    A necessary value must not be removed. Neither must a value that contains a necessary part, or a part that must not be
    updated. `rules` are the rules of the mapping that has `field`. If `entry`, `value` is one entry of the list in `field`.
    """
    if not rules.may_update(field):
        raise _frozen_error(rules, field, ())
    if not entry and rules.is_necessary(field):
        reason = f"{field!r} is necessary and stays ($meta.necessary); SET it to another value instead"
        raise RefusedError(Refusal.NECESSARY, reason, Legal(field=field))
    _check_parts(rules, field, value, field, entry=entry)


def _check_parts(rules: Rules, field: str, value: Any, field_name: str, *, entry: bool) -> None:
    if isinstance(value, Mapping):
        inner = rules.rules_below(field, value, entry=entry)
        if inner.must_stay:
            name = str(value.get("id", field))
            free = tuple(key for key in _fields_of(value) if inner.may_update(key))
            reason = f"{name!r} is necessary and stays ($meta.necessary); SET one of its fields instead"
            reason += f": {list_choices(free)}" if free else ""
            raise RefusedError(Refusal.NECESSARY, reason, Legal(field=name, choices=free))
        if not inner.updatable:
            reason = f"{field_name!r} holds a part that may not be updated ($meta.updatable)"
            raise RefusedError(Refusal.NOT_UPDATABLE, reason)
        for key, part in value.items():
            if key != META:
                _check_parts(inner, key, part, field_name, entry=False)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_parts(rules, field, item, field_name, entry=True)


def has_ruled_entries(rules: Rules, field: str, entries: Sequence[Any]) -> bool:
    """Return whether `entries`, the list in `field`, contains a mapping that has rules: its own, or a template's."""
    return any(
        bool(rules.rules_below(field, item, entry=True).meta) or _holds_meta(item)
        for item in entries
        if isinstance(item, Mapping)
    )


def _holds_meta(node: Any) -> bool:
    if isinstance(node, Mapping):
        return META in node or any(_holds_meta(value) for value in node.values())
    return isinstance(node, list | tuple) and not is_pair(node) and any(_holds_meta(item) for item in node)
