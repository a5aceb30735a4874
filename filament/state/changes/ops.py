"""Defines the op (one change of a state) as a typed value, and reads the two forms in which models write ops.

The forms are a list such as `["SET", path, value]`, and a JSON Patch object. This module reads no state tree.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from filament.errors import OpError
from filament.markup import clean_surrogates

MAX_VALUE_DEPTH = 32
MAX_TARGET_CHARS = 500
_INT_LIMIT = 2**63
_SHOWN_CHARS = 160


class Verb(StrEnum):
    """Action of an op. INSERT is the `add` of JSON Patch, which sets a field or inserts an entry into a list."""

    SET = "SET"
    ADD = "ADD"
    SUB = "SUB"
    MUL = "MUL"
    DIV = "DIV"
    PUSH = "PUSH"
    POP = "POP"
    DELETE = "DELETE"
    INSERT = "INSERT"


CREATING = frozenset((Verb.SET, Verb.INSERT))
ARITHMETIC = frozenset((Verb.ADD, Verb.SUB, Verb.MUL, Verb.DIV))
_JSON_PATCH = {"add": Verb.INSERT, "replace": Verb.SET, "remove": Verb.DELETE}


@dataclass(frozen=True, kw_only=True, slots=True)
class Op:
    """One change of the state."""

    verb: Verb
    target: str
    """Flat path (`item_sword_01.count`, `hero.health`) or JSON Pointer (`/hero/health`)."""
    value: Any = None
    """JSON value. For POP it is the entry to take, or None to take the last one. For DELETE it is always None."""
    number: int = 0
    """0-based place in the reply. Errors name the op by this number."""

    def __str__(self) -> str:
        """Return the op as a JSON list, shortened if it is long."""
        parts = [self.verb.value, self.target]
        if self.verb is not Verb.DELETE and not (self.verb is Verb.POP and self.value is None):
            parts.append(self.value)
        return raw_text(parts)


def parse_op(raw: Any, number: int = 0) -> Op:
    """Return the op that is written in `raw`. `number` is the place of the op in the list of ops. Legal forms are:

    - `["SET", "item_sword_01.count", 0]`, with any verb, in any case;
    - `{"op": "add|replace|remove", "path": "/a/b" or "a.b", "value": …}`: a JSON Patch object, in which a verb may
      replace `add`;
    - `add` to a path that ends in `/-` is a PUSH.

    Raises:
        OpError: if `raw` has another form, or if its value is not JSON data, is nested deeper than 32 levels, has a number
            beyond 64 bits, or contains `$meta`.
    """
    try:
        return _parse_op(raw, number)
    except ValueError as error:
        raise OpError(number, raw_text(raw), str(error)) from error


def _parse_op(raw: Any, number: int) -> Op:
    if isinstance(raw, Mapping):
        word, target = raw.get("op"), raw.get("path")
        has_value, value = "value" in raw, raw.get("value")
        verb = _JSON_PATCH.get(word) if isinstance(word, str) else None
        verb = verb or _read_verb(word)
        if verb in (Verb.DELETE, Verb.POP) and value is None:
            has_value = verb is Verb.POP
    elif isinstance(raw, list | tuple):
        if len(raw) not in (2, 3):
            raise ValueError("an op is [verb, target] or [verb, target, value]")
        verb, target = _read_verb(raw[0]), raw[1]
        has_value, value = len(raw) == 3, raw[2] if len(raw) == 3 else None
    else:
        raise ValueError("an op is a list [verb, target, value] or an object {op, path, value}")
    if not isinstance(target, str) or not target.strip() or len(target) > MAX_TARGET_CHARS:
        raise ValueError("the target must be a path, such as item_sword_01.count")
    if verb is Verb.DELETE and has_value and value is not None:
        raise ValueError("DELETE takes no value. To take one entry out of a list, POP it")
    if not has_value and verb not in (Verb.DELETE, Verb.POP):
        raise ValueError(f"{verb} needs a value")
    target = clean_surrogates(target.strip())
    if verb is Verb.INSERT and target.startswith("/") and target.endswith("/-"):
        verb, target = Verb.PUSH, target[:-2]
    return Op(verb=verb, target=target, value=copy_json_value(value), number=number)


def _read_verb(word: Any) -> Verb:
    name = word.strip().upper() if isinstance(word, str) else ""
    if name not in Verb.__members__:
        known = ", ".join(Verb.__members__)
        raise ValueError(f"{word!r} is not a verb. Use one of {known}, or JSON Patch add, replace, remove")
    return Verb[name]


def copy_json_value(value: Any, depth: int = 0) -> Any:
    """Return a copy of `value` that is made only of dict, list, str, int, float, bool and None.

    `depth` is the number of levels around `value`. Raises ValueError if `value` is not JSON, is nested too deep, or contains
    `$meta`.
    """
    if depth > MAX_VALUE_DEPTH:
        raise ValueError(f"the value is nested deeper than {MAX_VALUE_DEPTH} levels")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean_surrogates(str.__str__(value))
    if isinstance(value, int | float):
        return check_json_number(value)
    if isinstance(value, list | tuple):
        return [copy_json_value(item, depth + 1) for item in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("the value has a key that is not text")
        if "$meta" in value:
            raise ValueError("the value writes $meta, which belongs to the author of the world")
        return {clean_surrogates(key): copy_json_value(item, depth + 1) for key, item in value.items()}
    raise ValueError(f"the value holds a {type(value).__name__}, which is not JSON")


def check_json_number(value: int | float) -> int | float:
    """Return the number unchanged. Raises ValueError if it is not finite, or is a whole number beyond 64 bits."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("the number is not finite")
    if isinstance(value, int) and not -_INT_LIMIT <= value < _INT_LIMIT:
        raise ValueError("the number is beyond 64 bits")
    return value


def raw_text(raw: Any) -> str:
    """Return an op of any shape as one short line, for a message."""
    try:
        shown = json.dumps(raw, ensure_ascii=False, default=repr)
    except (ValueError, TypeError, RecursionError):
        shown = type(raw).__name__
    shown = clean_surrogates(shown)
    return shown if len(shown) <= _SHOWN_CHARS else f"{shown[: _SHOWN_CHARS - 1]}…"
