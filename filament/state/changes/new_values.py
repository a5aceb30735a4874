"""Computes the value that a place in the state has after a change, by the author's rules.

The change sets a new value in place of an old one, or adds a new mapping that follows a template (example fields and rules of an
author). The functions do not change the state. They return the value to be stored, or raise RefusedError if a rule forbids it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from filament.state.anchors import assign_item_ids
from filament.state.changes.fitting import NOTHING, fit_entry, fit_value
from filament.state.changes.guards import (
    check_growth,
    check_new_field,
    check_removal,
    check_transition,
    has_ruled_entries,
)
from filament.state.conventions import ID, IDENTITY, META, is_pair, is_scalar, same_scalar
from filament.state.descriptions import add_note, describe_new_value
from filament.state.rules import KEEP, Rules, shown_names
from filament.state.verdicts import Legal, Note, Refusal, RefusedError, Remark, find_nearest, list_choices


def replace_value(rules: Rules, field: str, old: Any, new: Any, notes: list[Note], *, entry: bool = False) -> Any:
    """Return the value of a place after `new` was set in place of `old`.

    `rules` are the rules of the mapping that has `field`. If `entry`, the place is an entry of the list in `field`; otherwise
    it is `field` itself. Remarks on changes of `new` are added to `notes`.

    - A VWD (value with description) gets the description that belongs to its new value.
    - A mapping stays a mapping and keeps its `id`, `_anchor` and `$meta`. Each of its fields is replaced separately,
      so that setting the whole mapping cannot bypass the rule of a field.
    - A list stays a list.

    Raises:
        RefusedError: if a rule forbids the change.
    """
    if isinstance(old, Mapping):
        return _replace_mapping(rules.rules_below(field, old, entry=entry), field, old, new, notes)
    if isinstance(old, list | tuple) and not rules.is_described(field, old):
        return _replace_list(rules, field, old, new, notes)
    if entry:
        new = fit_entry(rules, field, old, new, notes)
    else:
        new = fit_value(rules, field, old, new, notes)
        check_transition(rules, field, plain_of(old), plain_of(new))
    if rules.is_described(field, old):
        if is_scalar(new) or is_pair(new):
            return describe_new_value(rules, field, old, new, notes)
        reason = f"{field!r} is a value with a description: give a value, or [value, description]"
        raise RefusedError(Refusal.WRONG_TYPE, reason, Legal(field=field))
    return build_value(rules, field, new, notes, entry=entry)


def _replace_mapping(rules: Rules, field: str, old: Mapping[str, Any], new: Any, notes: list[Note]) -> dict[str, Any]:
    if not isinstance(new, Mapping):
        names = tuple(key for key in shown_names(old, rules) if key not in IDENTITY)
        reason = f"{field!r} has fields of its own: set one of them ({list_choices(names)})"
        raise RefusedError(Refusal.WRONG_TYPE, reason, Legal(field=field, choices=names, kind="mapping"))
    result: dict[str, Any] = {}
    for key, value in old.items():
        if key == META or key in IDENTITY:
            if key in new and new[key] != value:
                raise RefusedError(Refusal.PROTECTED, f"the {key!r} of {field!r} cannot be changed")
            result[key] = value
        elif key in new:
            result[key] = _replace_field(rules, key, value, new[key], notes)
        elif rules.hides(key, value):
            # A model that sets the mapping it was shown does not mean to remove hidden fields.
            result[key] = value
        else:
            check_removal(rules, key, value)
    for key, value in new.items():
        if key not in old:
            check_new_field(rules, key, old)
            result[key] = build_value(rules, key, value, notes)
    return result


def _replace_field(rules: Rules, key: str, old: Any, new: Any, notes: list[Note]) -> Any:
    result = replace_value(rules, key, old, new, notes)
    if result != old and not isinstance(old, Mapping) and not rules.may_update(key):
        raise RefusedError(Refusal.NOT_UPDATABLE, f"{key!r} may not be updated ($meta.updatable)", Legal(field=key))
    return result


def _replace_list(rules: Rules, field: str, old: Any, new: Any, notes: list[Note]) -> Any:
    if not isinstance(new, list):
        reason = f"{field!r} is a list: give a list, or PUSH and POP its entries"
        raise RefusedError(Refusal.WRONG_TYPE, reason, Legal(field=field, kind="list"))
    if has_ruled_entries(rules, field, old):
        reason = f"{field!r} holds entries with rules of their own: change, PUSH or POP them one at a time"
        ids = tuple(item[ID] for item in old if isinstance(item, Mapping) and isinstance(item.get(ID), str))
        raise RefusedError(Refusal.PROTECTED, f"{reason} ({list_choices(ids)})", Legal(field=field, choices=ids))
    if len(new) > len(old):
        check_growth(rules, field)
    return [build_value(rules, field, item, notes, entry=True) for item in new]


def build_value(rules: Rules, field: str, value: Any, notes: list[Note], *, entry: bool = False) -> Any:
    """Return `value` in the form in which it is stored in the new field `field` or, if `entry`, in the list in `field`.

    `rules` are the rules of the mapping that has `field`. A mapping follows its template: missing fields are filled in, in the
    template's order. Then come the fields that the template does not have, if the mapping may be extended. Types, limits and
    necessary fields are checked. If the author has a table of descriptions for the value, the value gets its description.
    Remarks are added to `notes`.

    Raises:
        RefusedError: if a rule forbids the value.
    """
    if isinstance(value, Mapping):
        return _build_mapping(rules, field, value, notes, entry=entry)
    if not entry:
        value = fit_value(rules, field, NOTHING, value, notes)
    if is_scalar(value) or rules.is_described(field, value):
        if entry:
            return value
        if is_pair(value) and isinstance(value[0], str):
            sentence = (
                f"{field!r} is read as {value[0]!r} with the description {value[1]!r}; a list would need $meta.lists."
            )
            add_note(notes, Remark.READ_AS_DESCRIBED, field, sentence)
        return describe_new_value(rules, field, None, value, notes)
    return [build_value(rules, field, item, notes, entry=True) for item in value]


def _build_mapping(
    rules: Rules, field: str, value: Mapping[str, Any], notes: list[Note], *, entry: bool
) -> dict[str, Any]:
    shape = rules.shape_below(field, entry=entry)
    bearing = {key: value[key] for key in IDENTITY if key in value}
    inner = rules.rules_below(field, bearing, entry=entry)
    made: dict[str, Any] = {ID: value[ID]} if ID in value else {}
    for key, default in shape.items():
        if key not in (META, *IDENTITY):
            made[key] = _fill_field(inner, key, default, value.get(key, NOTHING), notes)
    for key, given in value.items():
        if key in made:
            continue
        if shape and key not in IDENTITY and not inner.extensible and not inner.expects_field(key):
            names = tuple(shown_names(shape, inner))
            near = find_nearest(key, names)
            hint = f"; did you mean {near!r}?" if near else f"; it has {list_choices(names)}"
            reason = f"{key!r} is not a field of such a thing ($meta.extensible){hint}"
            raise RefusedError(Refusal.NOT_EXTENSIBLE, reason, Legal(field=key, near=near, choices=names))
        made[key] = given if key in IDENTITY else build_value(inner, key, given, notes)
    for name in inner.necessary_fields:
        if name not in made and name not in IDENTITY:
            reason = f"such a thing needs {name!r}; give it ($meta.necessary)"
            raise RefusedError(Refusal.MISSING_FIELD, reason, Legal(field=name))
    return made


def _fill_field(rules: Rules, field: str, default: Any, given: Any, notes: list[Note]) -> Any:
    """Return a field of a new thing: the given value, otherwise its template's."""
    if given is NOTHING:
        return build_value(rules, field, default, [])
    if isinstance(default, Mapping) is not isinstance(given, Mapping):
        wanted = "has fields of its own" if isinstance(default, Mapping) else "is a single value or a list"
        raise RefusedError(Refusal.WRONG_TYPE, f"{field!r} {wanted} in such a thing")
    if rules.is_list(field, default) and not isinstance(given, list | tuple):
        raise RefusedError(Refusal.WRONG_TYPE, f"{field!r} is a list in such a thing", Legal(field=field, kind="list"))
    if is_scalar(default) or rules.is_described(field, default):
        given = fit_value(rules, field, default, given, notes)
    if rules.is_described(field, default) and is_scalar(given):
        keeps = same_scalar(default[0], given) or rules.description_rule(field) == KEEP
        given = [given, default[1]] if keeps else given
    return build_value(rules, field, given, notes)


def plain_of(value: Any) -> Any:
    """Return `value` without its description, if it has one."""
    return value[0] if is_pair(value) else value


def assign_new_ids(value: Any, fresh: Iterator[str], *, in_container: bool = False) -> Any:
    """Return the new `value` with an id for each mapping in a list and for each mapping in a container.

    Ids are taken from `fresh`. If `in_container`, `value` itself is an entry of a container, or a list of such entries.
    """
    if in_container and isinstance(value, list | tuple):
        return [assign_new_ids(item, fresh, in_container=True) if isinstance(item, Mapping) else item for item in value]
    if in_container and isinstance(value, Mapping) and ID not in value:
        value = {ID: next(fresh), **value}
    return assign_item_ids(value, fresh)
