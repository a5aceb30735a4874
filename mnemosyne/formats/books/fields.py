"""The fields of a native entry of world info: their types, their defaults, and how other files spell them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mnemosyne.formats.losses import FieldCounter

BY_ACTIVATION = "heeded with activation: sillytavern"
FOR_EXPORT = "kept for export"
MOST_TEXTS = 100_000
_UPPER = re.compile(r"(?<=[a-z0-9])([A-Z])")
_POSITIONS = {"before_char": 0, "after_char": 1, "": 0}

Convert = Callable[[Any], Any]
"""Returns a value of the type that a field has; raises ValueError for one that says nothing of the kind."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeField:
    """One field: how a value becomes of its type, its default, and what is said of it in a report (`note`)."""

    convert: Convert
    default: Any
    note: str = ""


def to_texts(value: Any) -> list[str]:
    """Return the texts of a list, or of a text with commas; blank ones are left out, keys in `/…/` are not cut."""
    if isinstance(value, str):
        value = [value] if value.startswith("/") else value.split(",")
    if isinstance(value, bool | int | float):
        value = [str(value)]
    if not isinstance(value, list):
        raise ValueError("is no list of texts")
    texts = [to_text(each) for each in value[:MOST_TEXTS] if isinstance(each, str | int | float)]
    return [text.strip() for text in texts if text.strip()]


def to_text(value: Any) -> str:
    """Return a text; a number is written out."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return str(value)
    raise ValueError("is no text")


def to_flag(value: Any) -> bool:
    """Return true or false; also of 0 and 1, and of the words."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value != 0
    if isinstance(value, str) and value.strip().lower() in ("true", "false", "yes", "no", "1", "0", ""):
        return value.strip().lower() in ("true", "yes", "1")
    raise ValueError("is neither true nor false")


def to_number(value: Any) -> int | float:
    """Return a number; also of a text that is one."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise ValueError("is no number") from None
    if not isinstance(value, int | float) or value != value or abs(value) > 1e15:
        raise ValueError("is no number")
    return int(value) if float(value).is_integer() else value


def to_whole(value: Any) -> int:
    """Return a whole number, cut where there are decimals."""
    return int(to_number(value))


def to_position(value: Any) -> int:
    """Return a position 0 to 7; also of the words of the card specification."""
    if isinstance(value, str) and value.strip().lower() in _POSITIONS:
        return _POSITIONS[value.strip().lower()]
    place = to_whole(value)
    if not 0 <= place <= 7:
        raise ValueError("is no position")
    return place


def to_logic(value: Any) -> int:
    """Return the logic of secondary keys, 0 to 3."""
    logic = to_whole(value)
    if not 0 <= logic <= 3:
        raise ValueError("is no logic of secondary keys")
    return logic


def to_role(value: Any) -> int:
    """Return a role: 0 system, 1 user, 2 assistant; also of the words."""
    words = {"system": 0, "user": 1, "assistant": 2}
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    role = to_whole(value)
    if not 0 <= role <= 2:
        raise ValueError("is no role")
    return role


def to_mapping(value: Any) -> dict[str, Any]:
    """Return a mapping."""
    if not isinstance(value, Mapping):
        raise ValueError("is no mapping")
    return dict(value)


def _or_none(convert: Convert) -> Convert:
    return lambda value: None if value is None or value == "" else convert(value)


_FLAG, _WHOLE = to_flag, to_whole
NATIVE: dict[str, NativeField] = {
    "key": NativeField(convert=to_texts, default=[]),
    "keysecondary": NativeField(convert=to_texts, default=[], note=BY_ACTIVATION),
    "comment": NativeField(convert=to_text, default=""),
    "content": NativeField(convert=to_text, default=""),
    "constant": NativeField(convert=_FLAG, default=False),
    "vectorized": NativeField(convert=_FLAG, default=False, note=BY_ACTIVATION),
    "selective": NativeField(convert=_FLAG, default=True, note=BY_ACTIVATION),
    "selectiveLogic": NativeField(convert=to_logic, default=0, note=BY_ACTIVATION),
    "addMemo": NativeField(convert=_FLAG, default=False, note=FOR_EXPORT),
    "order": NativeField(convert=_WHOLE, default=100),
    "position": NativeField(convert=to_position, default=0, note=BY_ACTIVATION),
    "disable": NativeField(convert=_FLAG, default=False),
    "ignoreBudget": NativeField(convert=_FLAG, default=False, note=BY_ACTIVATION),
    "excludeRecursion": NativeField(convert=_FLAG, default=False, note=BY_ACTIVATION),
    "preventRecursion": NativeField(convert=_FLAG, default=False, note=BY_ACTIVATION),
    "delayUntilRecursion": NativeField(convert=_WHOLE, default=0, note=BY_ACTIVATION),
    "probability": NativeField(convert=to_number, default=100, note=BY_ACTIVATION),
    "useProbability": NativeField(convert=_FLAG, default=True, note=BY_ACTIVATION),
    "depth": NativeField(convert=_WHOLE, default=4, note=BY_ACTIVATION),
    "role": NativeField(convert=_or_none(to_role), default=None, note=BY_ACTIVATION),
    "outletName": NativeField(convert=to_text, default="", note=BY_ACTIVATION),
    "group": NativeField(convert=to_text, default="", note=BY_ACTIVATION),
    "groupOverride": NativeField(convert=_FLAG, default=False, note=BY_ACTIVATION),
    "groupWeight": NativeField(convert=_WHOLE, default=100, note=BY_ACTIVATION),
    "useGroupScoring": NativeField(convert=_or_none(_FLAG), default=None, note=BY_ACTIVATION),
    "scanDepth": NativeField(convert=_or_none(_WHOLE), default=None, note=BY_ACTIVATION),
    "caseSensitive": NativeField(convert=_or_none(_FLAG), default=None, note=BY_ACTIVATION),
    "matchWholeWords": NativeField(convert=_or_none(_FLAG), default=None, note=BY_ACTIVATION),
    "sticky": NativeField(convert=_or_none(_WHOLE), default=None, note=BY_ACTIVATION),
    "cooldown": NativeField(convert=_or_none(_WHOLE), default=None, note=BY_ACTIVATION),
    "delay": NativeField(convert=_or_none(_WHOLE), default=None, note=BY_ACTIVATION),
    "matchPersonaDescription": NativeField(convert=_FLAG, default=False, note=BY_ACTIVATION),
    "matchCharacterDescription": NativeField(convert=_FLAG, default=False, note=BY_ACTIVATION),
    "matchCharacterPersonality": NativeField(convert=_FLAG, default=False, note=BY_ACTIVATION),
    "matchCharacterDepthPrompt": NativeField(convert=_FLAG, default=False, note=BY_ACTIVATION),
    "matchScenario": NativeField(convert=_FLAG, default=False, note=BY_ACTIVATION),
    "matchCreatorNotes": NativeField(convert=_FLAG, default=False, note=BY_ACTIVATION),
    "triggers": NativeField(convert=to_texts, default=[], note=BY_ACTIVATION),
    "characterFilter": NativeField(convert=_or_none(to_mapping), default=None),
    "automationId": NativeField(convert=to_text, default="", note=FOR_EXPORT),
    "displayIndex": NativeField(convert=_or_none(_WHOLE), default=None, note=FOR_EXPORT),
}
"""The fields of an entry in SillyTavern's order, but for `uid`."""


def spell_snake(name: str) -> str:
    """Return a name in the spelling of cards: `selectiveLogic` as `selective_logic`."""
    return _UPPER.sub(r"_\1", name).lower()


SPELLINGS: dict[str, str] = {
    **{spell_snake(name): name for name in NATIVE},
    **{name.lower(): name for name in NATIVE},
    **{name: name for name in NATIVE},
    "keys": "key",
    "keyword": "key",
    "keywords": "key",
    "secondary_keys": "keysecondary",
    "secondarykeys": "keysecondary",
    "secondaryKeys": "keysecondary",
    "insertion_order": "order",
    "insertionOrder": "order",
    "enabled": "disable",
    "disabled": "disable",
}
"""How files spell native fields. `enabled` says the opposite of `disable`."""


def convert_fields(
    raw: Mapping[str, Any], counter: FieldCounter, prefix: str, known: Mapping[str, str] = SPELLINGS
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the native fields of a mapping, without those that have their default, and all others as they are.

    A value of another type is left to the others, and counted as changed. Of two spellings of a field the first with a value
    counts.
    """
    native: dict[str, Any] = {}
    others: dict[str, Any] = {}
    seen: set[str] = set()
    for name, value in raw.items():
        target = known.get(name)
        if target is None:
            others[name] = value
            continue
        if value is None or target in seen:
            continue
        field = NATIVE[target]
        try:
            made = field.convert(value)
        except ValueError as error:
            others[name] = value
            counter.change(f"{prefix}{name}", value, f"{error}; kept for export, the default counts")
            continue
        if name == "enabled":
            made = not made
        seen.add(target)
        note = "" if made == field.default else field.note
        counter.keep(f"{prefix}{name}", value, note)
        if made != field.default:
            native[target] = made
    return native, others


def with_defaults(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the native fields with their defaults, in SillyTavern's order, then all others."""
    for name, field in NATIVE.items():
        value = fields.get(name, field.default)
        if name == "characterFilter" and value is None:
            continue
        yield name, list(value) if isinstance(value, list) else value
    yield from ((name, value) for name, value in fields.items() if name not in NATIVE)
