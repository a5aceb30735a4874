"""What the rules of a mapping allow: types, limits, updatable, extensible, necessary.

Pure checks that raise RefusedError, with a code and a reason that a model or an author can act on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from filament.state.conventions import IDENTITY, META, is_number, is_pair, is_scalar, same_scalar
from filament.state.places import Spot
from filament.state.rules import Rules
from filament.state.verdicts import Note, Refusal, RefusedError, Remark

_CALLED = {
    "text": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "list": "a list",
    "mapping": "a mapping",
}


def has_type(word: str | tuple[Any, ...], value: Any) -> bool:
    """Return whether a value, taken without its description, is of a type (a word, or the values to choose from)."""
    if isinstance(word, tuple):
        return is_scalar(value) and any(same_scalar(choice, value) for choice in word)
    if word == "number":
        return is_number(value)
    if word == "integer":
        return is_number(value) and isinstance(value, int)
    kinds: dict[str, Any] = {"text": str, "boolean": bool, "list": list | tuple, "mapping": Mapping}
    return isinstance(value, kinds[word])


def type_text(word: str | tuple[Any, ...]) -> str:
    """Return a type in words."""
    return f"one of {', '.join(str(choice) for choice in word)}" if isinstance(word, tuple) else _CALLED[word]


def limits_text(limits: tuple[float | None, float | None]) -> str:
    """Return limits as `0 to 100`."""
    low, high = limits
    return f"{'-∞' if low is None else low} to {'∞' if high is None else high}"


def check_value(rules: Rules, field: str, value: Any) -> None:
    """Raise RefusedError for a value that is not of the type of its field or outside its limits."""
    plain = value[0] if rules.is_described(field, value) else value
    word = rules.type_of(field)
    if word is not None and not has_type(word, plain):
        raise RefusedError(Refusal.WRONG_TYPE, f"{field!r} takes {type_text(word)} ($meta.types)")
    limits = rules.limits_of(field)
    if limits is None:
        return
    low, high = limits
    if not is_number(plain):
        raise RefusedError(Refusal.WRONG_TYPE, f"{field!r} takes a number from {limits_text(limits)}")
    if (low is not None and plain < low) or (high is not None and plain > high):
        raise RefusedError(Refusal.OUTSIDE_LIMITS, f"{plain} is outside the limits of {field!r}, {limits_text(limits)}")


def clamp_number(rules: Rules, field: str, number: int | float, notes: list[Note]) -> int | float:
    """Return the number, moved to the nearer limit of the field if it is outside; a remark says so."""
    limits = rules.limits_of(field)
    low, high = limits or (None, None)
    kept = number
    if low is not None and kept < low:
        kept = low
    if high is not None and kept > high:
        kept = high
    if limits is not None and kept != number:
        field_name = f"{number} was set to {kept}: {field!r} takes {limits_text(limits)}."
        notes.append(Note(code=Remark.CLAMPED, field=field, text=field_name))
    return kept


def check_changeable(spot: Spot) -> None:
    """Raise RefusedError for a change at a frozen spot, and for a change of an `id` or `_anchor`."""
    if spot.is_frozen:
        raise RefusedError(Refusal.NOT_UPDATABLE, f"{spot.key!r} may not be updated ($meta.updatable)")
    if spot.key in IDENTITY and isinstance(spot.owner, Mapping):
        raise RefusedError(Refusal.PROTECTED, f"the {spot.key!r} of a thing cannot be changed")


def check_new_field(rules: Rules, field: str) -> None:
    """Raise RefusedError for a new field in a mapping that may not be extended and does not declare it."""
    if not rules.extensible and not rules.expects_field(field):
        raise RefusedError(Refusal.NOT_EXTENSIBLE, f"no new field {field!r} may be added here ($meta.extensible)")
    if not rules.may_update(field):
        raise RefusedError(Refusal.NOT_UPDATABLE, f"{field!r} may not be updated ($meta.updatable)")


def check_growth(rules: Rules, field: str) -> None:
    """Raise RefusedError where a list may not grow because its mapping may not be extended."""
    if not rules.extensible:
        raise RefusedError(Refusal.NOT_EXTENSIBLE, f"{field!r} may not grow ($meta.extensible)")


def check_removal(rules: Rules, field: str, value: Any, *, entry: bool = False) -> None:
    """Raise RefusedError for removing a necessary field or thing, or one that holds a part that may not be changed or
    must stay.

    `rules` are those of the mapping that holds `field`; with `entry`, an entry of the list there is removed.
    """
    if not rules.may_update(field):
        raise RefusedError(Refusal.NOT_UPDATABLE, f"{field!r} may not be updated ($meta.updatable)")
    if not entry and rules.is_necessary(field):
        raise RefusedError(Refusal.NECESSARY, f"{field!r} is necessary and stays ($meta.necessary)")
    _check_parts(rules, field, value, field, entry=entry)


def _check_parts(rules: Rules, field: str, value: Any, field_name: str, *, entry: bool) -> None:
    if isinstance(value, Mapping):
        inner = rules.rules_below(field, value, entry=entry)
        if inner.must_stay:
            name = value.get("id", field)
            raise RefusedError(Refusal.NECESSARY, f"{name!r} is necessary and stays ($meta.necessary)")
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
    """Return whether a list holds things with rules of their own or of a template."""
    return any(
        bool(rules.rules_below(field, item, entry=True).meta) or _holds_meta(item)
        for item in entries
        if isinstance(item, Mapping)
    )


def _holds_meta(node: Any) -> bool:
    if isinstance(node, Mapping):
        return META in node or any(_holds_meta(value) for value in node.values())
    return isinstance(node, list | tuple) and not is_pair(node) and any(_holds_meta(item) for item in node)
