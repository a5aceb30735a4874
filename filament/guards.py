"""What `$meta` allows: limits, updatable, extensible, necessary; and how a new value settles into an old place.

Pure checks that say no by raising RefusedError, with a reason that a model or an author can act on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from filament.described import ANCHOR, ID, META, is_described, is_pair, is_scalar, meta_of
from filament.places import RefusedError, Spot

IDENTITY = (ID, ANCHOR)


def is_number(value: Any) -> bool:
    """Say whether a value counts as a number: whole or not, but no boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def limits_of(owner: Any, field: str) -> tuple[float | None, float | None] | None:
    """Return (min, max) of a field, None at an open end; None if it has no limits; RefusedError if they are misspelt."""
    limits = meta_of(owner).get("limits")
    pair = limits.get(field) if isinstance(limits, Mapping) else None
    if pair is None:
        return None
    if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(end is None or is_number(end) for end in pair):
        raise RefusedError(f"its $meta.limits must be [min, max]; the author of the world has to mend {field!r}")
    return pair[0], pair[1]


def clamp(owner: Any, field: str, number: int | float) -> int | float:
    """Return the number, moved to the nearer limit of the field if it lies outside."""
    low, high = limits_of(owner, field) or (None, None)
    if low is not None and number < low:
        number = low
    if high is not None and number > high:
        number = high
    return number


def check_limits(owner: Any, field: str, value: Any) -> None:
    """Refuse a value outside the limits of its field, or that is no number where there are limits."""
    limits = limits_of(owner, field)
    if limits is None:
        return
    number = value[0] if is_pair(value) else value
    low, high = limits
    shown = f"{'-∞' if low is None else low} to {'∞' if high is None else high}"
    if not is_number(number):
        raise RefusedError(f"{field!r} takes a number from {shown}")
    if (low is not None and number < low) or (high is not None and number > high):
        raise RefusedError(f"{number} is outside the limits of {field!r}, {shown}")


def check_changeable(spot: Spot) -> None:
    """Refuse any change at a frozen spot, and of an identity."""
    if spot.frozen:
        raise RefusedError(f"{spot.key!r} may not be updated ($meta.updatable)")
    if spot.key in IDENTITY and isinstance(spot.owner, Mapping):
        raise RefusedError(f"the {spot.key!r} of a thing does not change")


def check_new_field(owner: Any, field: str, value: Any) -> None:
    """Refuse a new field where the mapping may not be extended or the value breaks its limits."""
    if meta_of(owner).get("extensible") is False:
        raise RefusedError(f"no new field {field!r} may be added here ($meta.extensible)")
    check_limits(owner, field, value)


def check_growth(spot: Spot) -> None:
    """Refuse growth of a list whose mapping may not be extended."""
    if meta_of(spot.holder).get("extensible") is False:
        raise RefusedError(f"{spot.field!r} may not grow ($meta.extensible)")


def check_removal(owner: Any, key: str, value: Any) -> None:
    """Refuse to take away a necessary field, or anything with a part that may not be updated."""
    necessary = meta_of(owner).get("necessary")
    if isinstance(necessary, list | tuple) and key in necessary:
        raise RefusedError(f"{key!r} is necessary and stays")
    if _holds_frozen(value):
        raise RefusedError(f"{key!r} holds a part that may not be updated ($meta.updatable)")


def _holds_frozen(node: Any) -> bool:
    if isinstance(node, Mapping):
        own = meta_of(node).get("updatable") is False
        return own or any(_holds_frozen(value) for key, value in node.items() if key != META)
    return isinstance(node, list | tuple) and any(_holds_frozen(item) for item in node)


def _holds_meta(node: Any) -> bool:
    if isinstance(node, Mapping):
        return META in node or any(_holds_meta(value) for value in node.values())
    return isinstance(node, list | tuple) and any(_holds_meta(item) for item in node)


def settle(owner: Any, field: str, old: Any, new: Any, *, described: bool) -> Any:
    """Return what a field holds once `new` is set where `old` stood; `described` says whether `old` is a VWD.

    A VWD keeps its description unless the new value brings one. A mapping stays a mapping and keeps its id, `_anchor` and
    `$meta`; each of its fields settles in turn, so that no rule can be passed by from above. A list stays a list. RefusedError
    where a rule says no.
    """
    check_limits(owner, field, new)
    if described:
        if is_scalar(new):
            return [new, old[1]]
        if is_pair(new):
            return new
        raise RefusedError(f"{field!r} is a value with a description: give a value, or [value, description]")
    if isinstance(old, Mapping):
        return _settle_mapping(field, old, new)
    if isinstance(old, list | tuple):
        if not isinstance(new, list):
            raise RefusedError(f"{field!r} is a list: give a list, or PUSH and POP its entries")
        if _holds_meta(old):
            raise RefusedError(
                f"{field!r} holds entries with rules of their own: change, PUSH or POP them one at a time"
            )
    return new


def _settle_mapping(field: str, old: Mapping[str, Any], new: Any) -> dict[str, Any]:
    if not isinstance(new, Mapping):
        raise RefusedError(f"{field!r} has fields of its own: set one of them")
    settled: dict[str, Any] = {}
    for key, value in old.items():
        if key == META or key in IDENTITY:
            if key in new and new[key] != value:
                raise RefusedError(f"the {key!r} of {field!r} does not change")
            settled[key] = value
        elif key in new:
            settled[key] = settle(old, key, value, new[key], described=is_described(old, key, value))
        else:
            check_removal(old, key, value)
    for key, value in new.items():
        if key not in old:
            check_new_field(old, key, value)
            settled[key] = value
    if meta_of(old).get("updatable") is False and settled != dict(old):
        raise RefusedError(f"{field!r} may not be updated ($meta.updatable)")
    return settled
