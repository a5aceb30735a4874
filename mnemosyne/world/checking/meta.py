"""Checks the rules in `$meta` of a world pack: the form of each rule, the fields that a rule names, and templates.

`$meta` is a key of a mapping in the state. Its value has the rules of the mapping (types, limits, templates, …);
`docs/en/state-rules.md` explains them. A template is a mapping with example fields and rules for all things below a mapping.
`check_meta` checks the rules as written, also inside templates. `check_follows` checks that the fields of a mapping obey its
rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from filament.state.changes.guards import has_type, type_text
from filament.state.conventions import ANCHOR, ID, META, is_number, is_pair, is_scalar
from filament.state.descriptions import look_up_text
from filament.state.rules import (
    DESCRIPTION,
    DESCRIPTIONS,
    DROP,
    EXTENSIBLE,
    HIDDEN,
    KEEP,
    LIMITS,
    LISTS,
    META_KEYS,
    NECESSARY,
    NECESSARY_WORDS,
    OR_NULL,
    OTHERS,
    SELF,
    TEMPLATE,
    TYPE_WORDS,
    TYPED,
    TYPES,
    UNITS,
    UPDATABLE,
    VALUE,
    Rules,
    rules_at_root,
)
from filament.state.verdicts import RefusedError
from mnemosyne.core.faults import FaultList, SourceLocation, did_you_mean, kind_name

MAX_DEPTH = 16
_OTHER_WORDS = {
    "required": NECESSARY,
    "min": LIMITS,
    "max": LIMITS,
    "range": LIMITS,
    "enum": TYPES,
    "values": TYPES,
    "type": TYPES,
    "unit": UNITS,
    "hide": HIDDEN,
    "secret": HIDDEN,
    "private": HIDDEN,
}
"""Words of other formats, with the key of `$meta` that has the same meaning."""


def check_meta(
    node: dict[str, Any], place: SourceLocation, faults: FaultList, *, depth: int = 0, is_root: bool = False
) -> None:
    """Add to `faults` every fault in the `$meta` of `node`, which is a mapping or a template.

    `place` is the location of `node` in its file. `depth` is the number of templates around `node`. `is_root` is True if
    `node` is the whole state.
    """
    if META not in node:
        return
    meta, here = node[META], place.at(META)
    if not isinstance(meta, dict):
        faults.add(here, f"is {kind_name(meta)}, but must be a mapping; known keys: {', '.join(META_KEYS)}")
        return
    known = _fields_of(node, meta)
    checks: dict[str, Callable[[Any, SourceLocation], None]] = {
        DESCRIPTION: lambda value, at: _check_kind(value, str, "text; it is a note for people", at, faults),
        EXTENSIBLE: lambda value, at: _check_kind(value, bool, "true or false; change it", at, faults),
        UPDATABLE: lambda value, at: _check_updatable(value, known, at, faults),
        NECESSARY: lambda value, at: _check_necessary(value, known, at, faults),
        LIMITS: lambda value, at: _check_limits(value, known, at, faults),
        LISTS: lambda value, at: _check_lists(node, value, known, at, faults),
        TYPES: lambda value, at: _check_types(value, at, faults),
        DESCRIPTIONS: lambda value, at: _check_descriptions(value, known, at, faults),
        TEMPLATE: lambda value, at: _check_template(value, at, faults, depth),
        UNITS: lambda value, at: _check_units(value, known, at, faults),
        HIDDEN: lambda value, at: _check_hidden(value, known, at, faults),
    }
    if is_root:
        checks[TYPED] = lambda value, at: _check_kind(value, bool, "true or false; change it", at, faults)
    for key, value in meta.items():
        if key in checks:
            checks[key](value, here.at(key))
        else:
            meant = _OTHER_WORDS.get(key)
            near = f"; use {meant!r}" if meant else did_you_mean(key, META_KEYS)
            near = near or f"; known keys: {', '.join(META_KEYS)}"
            faults.add(here.at(key), f"is not a key of $meta{near}")


def check_follows(node: dict[str, Any], rules: Rules, place: SourceLocation, faults: FaultList) -> None:
    """Add to `faults` each field of the mapping `node` that breaks `rules`, the rules of `node`. `place` is its location."""
    for name in rules.necessary_fields:
        if name not in node and rules.expects_field(name):
            faults.add(place, f"has no {name!r}, which its template calls necessary; add it")
    for key, value in node.items():
        if key != META:
            _check_field(rules, key, value, place.at(key), faults)


def _check_field(rules: Rules, key: str, value: Any, place: SourceLocation, faults: FaultList) -> None:
    try:
        word, limits, table = rules.type_of(key), rules.limits_of(key), rules.description_rule(key)
    except RefusedError:
        return
    plain = value[0] if rules.is_described(key, value) else value
    if word is not None and not has_type(word, plain):
        faults.add(place, f"is {kind_name(plain)}, but $meta.types wants {type_text(word)}; change one of the two")
        return
    if limits is not None:
        least, most = (-math.inf if limits[0] is None else limits[0]), (math.inf if limits[1] is None else limits[1])
        if not is_number(plain):
            faults.add(place, f"has limits, but is {kind_name(plain)}; limits are for numbers")
        elif least <= most and not least <= plain <= most:
            faults.add(place, f"has limits {least}..{most}, but it starts at {plain}; change one of the two")
    if isinstance(table, tuple):
        if not is_scalar(plain):
            faults.add(place, f"has a table of descriptions, but is {kind_name(plain)}; only a single value has one")
        elif look_up_text(table, plain) is None and all(is_number(row[0]) for row in table):
            faults.add(place, f"has a table for numbers, but is {kind_name(plain)}; change one of the two")


def _fields_of(node: Mapping[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that rules may name, with their values. The value is None if only `types` declares the field."""
    types = meta.get(TYPES)
    foreseen = dict.fromkeys(types, None) if isinstance(types, Mapping) else {}
    return {**foreseen, **{key: value for key, value in node.items() if key != META}}


def _check_kind(value: Any, kind: type, wanted: str, place: SourceLocation, faults: FaultList) -> None:
    if not isinstance(value, kind):
        faults.add(place, f"is {kind_name(value)}, but must be {wanted}")


def _check_updatable(value: Any, known: Mapping[str, Any], place: SourceLocation, faults: FaultList) -> None:
    if isinstance(value, bool):
        return
    if not isinstance(value, dict):
        faults.add(place, f"is {kind_name(value)}, but must be true or false, or a mapping 'field: true or false'")
        return
    for name, word in value.items():
        if name != OTHERS and not _is_field(known, name, place.at(name), faults):
            continue
        if not isinstance(word, bool):
            faults.add(place.at(name), f"is {kind_name(word)}, but must be true or false; change it")


def _check_necessary(value: Any, known: Mapping[str, Any], place: SourceLocation, faults: FaultList) -> None:
    if isinstance(value, str):
        if value not in NECESSARY_WORDS:
            near = did_you_mean(value, NECESSARY_WORDS)
            words = ", ".join(NECESSARY_WORDS)
            faults.add(place, f"is {value[:80]!r}; write the fields in [ ], or one of {words}{near}")
        return
    for at, name in _iterate_names(value, place, faults):
        if name != SELF:
            _is_field(known, name, at, faults)


def _check_limits(limits: Any, known: Mapping[str, Any], place: SourceLocation, faults: FaultList) -> None:
    if not isinstance(limits, dict):
        faults.add(place, f"is {kind_name(limits)}, but must be a mapping; write 'field: [least, most]'")
        return
    for name, bounds in limits.items():
        here = place.at(name)
        if not _is_field(known, name, here, faults):
            continue
        if (
            not isinstance(bounds, list)
            or len(bounds) != 2
            or not all(each is None or is_number(each) for each in bounds)
        ):
            faults.add(here, "must be two numbers; write [least, most], with null for an open end")
        elif None not in bounds and bounds[0] > bounds[1]:
            faults.add(here, f"has a least value {bounds[0]} above the most {bounds[1]}; swap them")


def _check_lists(
    node: Mapping[str, Any], names: Any, known: Mapping[str, Any], place: SourceLocation, faults: FaultList
) -> None:
    for at, name in _iterate_names(names, place, faults):
        if _is_field(known, name, at, faults) and name in node and not isinstance(node[name], list):
            faults.add(at, f"names {name!r}, which is {kind_name(node[name])} and not a list; remove it")


def _check_types(types: Any, place: SourceLocation, faults: FaultList) -> None:
    if not isinstance(types, dict):
        faults.add(place, f"is {kind_name(types)}, but must be a mapping; write 'field: {TYPE_WORDS[0]}'")
        return
    words = ", ".join(TYPE_WORDS)
    for name, word in types.items():
        here = place.at(name)
        if isinstance(word, list):
            if not word or not all(is_scalar(choice) for choice in word):
                faults.add(here, "must list single values to choose from; write them in [ ]")
        elif not isinstance(word, str):
            faults.add(here, f"is {kind_name(word)}, but must be one of {words}, or a list of values")
        elif word.removesuffix(OR_NULL) not in TYPE_WORDS:
            near = did_you_mean(word, TYPE_WORDS)
            faults.add(here, f"is {word[:80]!r}, but must be one of {words}, or a list of values{near}")


def _check_units(units: Any, known: Mapping[str, Any], place: SourceLocation, faults: FaultList) -> None:
    if not isinstance(units, dict):
        faults.add(place, f"is {kind_name(units)}, but must be a mapping; write 'field: unit'")
        return
    for name, unit in units.items():
        here = place.at(name)
        if _is_field(known, name, here, faults) and (not isinstance(unit, str) or not unit.strip()):
            faults.add(here, f"is {kind_name(unit)}, but must be text, such as kg")


def _check_hidden(value: Any, known: Mapping[str, Any], place: SourceLocation, faults: FaultList) -> None:
    if isinstance(value, bool):
        return
    if not isinstance(value, list):
        faults.add(place, f"is {kind_name(value)}, but must be true, or the fields in [ ]")
        return
    for at, name in _iterate_names(value, place, faults):
        _is_field(known, name, at, faults)


def _check_descriptions(rules: Any, known: Mapping[str, Any], place: SourceLocation, faults: FaultList) -> None:
    if not isinstance(rules, dict):
        faults.add(place, f"is {kind_name(rules)}, but must be a mapping; write 'field: [[value, text], …]'")
        return
    for name, rule in rules.items():
        here = place.at(name)
        if not _is_field(known, name, here, faults) or rule in (KEEP, DROP):
            continue
        if isinstance(rule, str):
            if VALUE not in rule:
                faults.add(here, f"is a text without {VALUE}, where the value goes; write it, or {KEEP}, or {DROP}")
        else:
            _check_table(rule, here, faults)


def _check_table(rule: Any, place: SourceLocation, faults: FaultList) -> None:
    if not isinstance(rule, list) or not rule:
        faults.add(place, f"must be a table; write [[value, text], …], or {KEEP}, or {DROP}")
        return
    before = len(faults)
    for index, row in enumerate(rule):
        if not is_pair(row) or not row[1].strip():
            faults.add(place.at(index), "must be a value and its description; write [value, text]")
    if len(faults) > before:
        return
    values = [row[0] for row in rule]
    numbers = [value for value in values if is_number(value)]
    if numbers and len(numbers) < len(values):
        faults.add(place, "has numbers and other values; a table is read by steps or by value, not both")
    elif numbers != sorted(set(numbers)):
        faults.add(place, "must rise from row to row; each number applies from itself up to the next")
    elif not numbers and len({repr(value) for value in values}) < len(values):
        faults.add(place, "describes one value twice; keep one of the rows")


def _check_template(template: Any, place: SourceLocation, faults: FaultList, depth: int) -> None:
    if template is None:
        return
    if not isinstance(template, dict):
        faults.add(
            place, f"is {kind_name(template)}, but must be a mapping: the fields and $meta of the things in here"
        )
        return
    if depth >= MAX_DEPTH:
        faults.add(place, f"is a template inside a template more than {MAX_DEPTH} deep; make it flatter")
        return
    _check_shape(template, place, faults, depth + 1)


def _check_shape(shape: dict[str, Any], place: SourceLocation, faults: FaultList, depth: int) -> None:
    """Check a template, or a mapping within one. It must not have an anchor, because many things are made from the template."""
    check_meta(shape, place, faults, depth=depth)
    rules = rules_at_root(shape)
    for key, value in shape.items():
        if key == META:
            continue
        here = place.at(key)
        if key in (ID, ANCHOR):
            faults.add(here, f"is an {key!r} in a template, which many things follow; each needs its own, remove it")
        elif isinstance(value, dict):
            _check_shape(value, here, faults, depth)
        else:
            _check_field(rules, key, value, here, faults)


def _iterate_names(names: Any, place: SourceLocation, faults: FaultList) -> Iterable[tuple[SourceLocation, Any]]:
    if not isinstance(names, list):
        faults.add(place, f"is {kind_name(names)}, but must be a list; write the fields in [ ]")
        return ()
    return [(place.at(index), name) for index, name in enumerate(names)]


def _is_field(known: Mapping[str, Any], name: Any, place: SourceLocation, faults: FaultList) -> bool:
    if isinstance(name, str) and name in known:
        return True
    near = did_you_mean(name, known) if isinstance(name, str) else ""
    hint = near or "; add the field, name it in types, or remove it"
    faults.add(place, f"names {name!r}, which is not a field of this mapping{hint}")
    return False
