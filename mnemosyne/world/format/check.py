"""Checks a parsed value against a shape, and continues after a fault to report all of them.

A value with a fault becomes BROKEN, so that checks that depend on it are skipped and nothing is reported twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from mnemosyne.chains.quantities import is_expression
from mnemosyne.core.plain_values import plain_faults, text_fault
from mnemosyne.schema.memory import Comparison, Condition
from mnemosyne.world.format.conditions import parse_condition
from mnemosyne.world.format.faults import FaultList, SourceLocation, did_you_mean, kind_name
from mnemosyne.world.format.shapes import (
    Anything,
    Choice,
    Described,
    Field,
    Flag,
    Many,
    Number,
    OpList,
    Record,
    Shape,
    ShortCondition,
    Text,
    Tree,
)


class Broken:
    """The type of BROKEN."""

    def __repr__(self) -> str:
        return "BROKEN"


BROKEN: Final = Broken()


def check(shape: Shape, value: Any, place: SourceLocation, faults: FaultList) -> Any:
    """Return `value` with defaults filled in and conditions parsed, or BROKEN after recording why.

    A record is returned without its broken parts, a list with BROKEN in their place (see `iterate_sound`); only a value
    of the wrong kind is BROKEN itself.
    """
    match shape:
        case Text():
            return _check_text(shape, value, place, faults)
        case Number():
            return _check_number(shape, value, place, faults)
        case Flag():
            return value if isinstance(value, bool) else _add_fault(place, faults, value, "true or false")
        case Choice():
            return _check_choice(shape, value, place, faults)
        case Anything():
            return _check_plain(value, place, faults)
        case Described():
            pair = isinstance(value, list) and len(value) == 2 and isinstance(value[1], str)
            if isinstance(value[0] if pair else value, list | dict):
                return _add_fault(place, faults, value, "a single value, or [value, description]")
            return _check_plain(value, place, faults)
        case Tree():
            if not isinstance(value, dict):
                return _add_fault(place, faults, value, "a mapping")
            return _check_plain(value, place, faults)
        case Many():
            return _check_many(shape, value, place, faults)
        case Record():
            return _check_record(shape, value, place, faults)
        case ShortCondition():
            return _check_condition(shape, value, place, faults)
        case OpList():
            return _check_op(shape, value, place, faults)


def iterate_sound(items: Any, place: SourceLocation) -> Iterator[tuple[SourceLocation, Any]]:
    """Yield the members of a checked list that are not BROKEN, each with its place; nothing if the list itself is
    BROKEN.
    """
    if isinstance(items, list):
        yield from ((place.at(index), item) for index, item in enumerate(items) if item is not BROKEN)


def _add_fault(place: SourceLocation, faults: FaultList, value: Any, wanted: str) -> Broken:
    hint = ""
    if wanted == "text" and isinstance(value, bool | int | float):
        hint = "; write it in quotes"
    elif wanted == "text" and value is not None and not isinstance(value, list | dict):
        hint = "; write it in quotes, because YAML reads it as something else"
    elif wanted == "a list" and isinstance(value, str):
        hint = "; write [ ] around it"
    elif value is None:
        hint = "; fill it in or remove the key"
    faults.add(place, f"is {kind_name(value)}, but must be {wanted}{hint or '; change it'}")
    return BROKEN


def _check_text(shape: Text, value: Any, place: SourceLocation, faults: FaultList) -> Any:
    if not isinstance(value, str):
        return _add_fault(place, faults, value, "text")
    if not value.strip() and not shape.blank:
        faults.add(place, "is empty; write something or remove it")
        return BROKEN
    if reason := text_fault(value):
        faults.add(place, reason)
        return BROKEN
    if len(value) > shape.max_chars:
        faults.add(place, f"has {len(value):,} characters; shorten it to {shape.max_chars:,}")
        return BROKEN
    if shape.pattern and not re.fullmatch(shape.pattern, value):
        faults.add(place, f"is {value[:80]!r}, which is not allowed; {shape.hint}")
        return BROKEN
    return value


def _check_number(shape: Number, value: Any, place: SourceLocation, faults: FaultList) -> Any:
    wanted = "a whole number" if shape.whole else "a number"
    if isinstance(value, bool) or not isinstance(value, int | float) or (shape.whole and not isinstance(value, int)):
        return _add_fault(place, faults, value, wanted)
    # NaN compares false with everything, so the test is written as "within", not as "outside".
    fits = (shape.low is None or value >= shape.low) and (shape.high is None or value <= shape.high)
    if not fits or _check_plain(value, place, faults) is BROKEN:
        if not fits:
            limits = f"{shape.low:g} or more" if shape.high is None else f"between {shape.low:g} and {shape.high:g}"
            faults.add(place, f"is {value}; it must be {limits}")
        return BROKEN
    return value


def _check_choice(shape: Choice, value: Any, place: SourceLocation, faults: FaultList) -> Any:
    if isinstance(value, str) and value in shape.words:
        return value
    if not isinstance(value, str):
        return _add_fault(place, faults, value, f"one of {', '.join(shape.words)}")
    near = did_you_mean(value, shape.words) or "; choose one of these"
    faults.add(place, f"is {value[:80]!r}, but must be one of {', '.join(shape.words)}{near}")
    return BROKEN


def _check_plain(value: Any, place: SourceLocation, faults: FaultList) -> Any:
    found = False
    for path, reason in plain_faults(value):
        faults.add(place.at(*path), reason)
        found = True
    return BROKEN if found else value


def _check_many(shape: Many, value: Any, place: SourceLocation, faults: FaultList) -> Any:
    if not isinstance(value, list):
        return _add_fault(place, faults, value, "a list")
    if len(value) < shape.least:
        faults.add(place, f"has {len(value)} items; write at least {shape.least}")
        return BROKEN
    return [check(shape.item, item, place.at(index), faults) for index, item in enumerate(value)]


def _check_record(shape: Record, value: Any, place: SourceLocation, faults: FaultList) -> Any:
    if not isinstance(value, dict):
        return _add_fault(place, faults, value, "a mapping")
    known = {field.name: field for field in shape.fields}
    unwritten = [name for name in known if name not in value]
    for key in value:
        if not isinstance(key, str):
            faults.add(place, f"has the key {key!r}, which is not text; known keys: {', '.join(known)}")
        elif key not in known:
            near = did_you_mean(key, unwritten) or f"; known keys: {', '.join(known)}"
            faults.add(place.at(key), f"is not a key of {shape.label}{near}")
    checked = {name: _check_field(field, value, place, faults) for name, field in known.items()}
    return {name: item for name, item in checked.items() if item is not BROKEN}


def _check_field(field: Field, record: dict[Any, Any], place: SourceLocation, faults: FaultList) -> Any:
    if field.name not in record:
        if field.required:
            faults.add(place.at(field.name), f"is missing; {_sentence(field.doc)}")
            return BROKEN
        return field.fallback
    value = record[field.name]
    if value is None and not field.required:
        return field.fallback
    return check(field.shape, value, place.at(field.name), faults)


def _check_condition(shape: ShortCondition, value: Any, place: SourceLocation, faults: FaultList) -> Any:
    if isinstance(value, str) and not shape.short:
        faults.add(place, "is short text, which has no message; write {path, op, value, message}")
        return BROKEN
    if isinstance(value, str):
        try:
            condition = parse_condition(value)
        except ValueError as error:
            faults.add(place, str(error))
            return BROKEN
    else:
        before = len(faults)
        record = check(shape.record, value, place, faults)
        if len(faults) > before:
            return BROKEN
        condition = Condition(
            path=record["path"], op=Comparison(record["op"]), value=record["value"], message=record["message"]
        )
    # Guards, which have no short form, may calculate with the numbers of their action.
    is_calculated = not shape.short and is_expression(condition.value)
    wrong = None if is_calculated else _condition_fault(condition)
    if wrong:
        faults.add(place, wrong)
        return BROKEN
    return condition


def _condition_fault(condition: Condition) -> str | None:
    if condition.op is Comparison.IN and not isinstance(condition.value, list):
        return "uses 'in' with something that is not a list; write the choices in [ ]"
    ordered = condition.op in (Comparison.LT, Comparison.LE, Comparison.GT, Comparison.GE)
    if ordered and (isinstance(condition.value, bool) or not isinstance(condition.value, int | float)):
        return f"compares {condition.op.value} with {kind_name(condition.value)}; write a number without quotes"
    return None


def _check_op(shape: OpList, value: Any, place: SourceLocation, faults: FaultList) -> Any:
    if isinstance(value, dict):
        faults.add(place, "is a mapping; a pack writes ops as lists, such as [SET, hero.health, 5]")
        return BROKEN
    if not isinstance(value, list) or not value:
        return _add_fault(place, faults, value, "a list [VERB, path, value]")
    verb = value[0]
    if not isinstance(verb, str) or verb not in shape.verbs:
        near = did_you_mean(verb.upper(), shape.verbs) if isinstance(verb, str) else ""
        faults.add(place, f"has the verb {verb!r}; choose one of {', '.join(shape.verbs)}{near}")
        return BROKEN
    fits = (len(value) == 2 and verb in shape.short) or (len(value) == 3 and verb not in shape.bare)
    if not fits:
        form = "[VERB, path]" if verb in shape.bare else "[VERB, path, value]"
        faults.add(place, f"has {len(value)} parts; write {verb} as {form}")
        return BROKEN
    if not isinstance(value[1], str) or not value[1].strip():
        faults.add(place, f"has {value[1]!r} as its path; write a flat path such as hero.health")
        return BROKEN
    return BROKEN if len(value) == 3 and _check_plain(value[2], place.at(2), faults) is BROKEN else value


def _sentence(doc: str) -> str:
    return f"write it: {doc[0].lower()}{doc[1:]}".rstrip(".")
