"""Converts JSON values of any type to the types of native fields (the fields of SillyTavern's world info).

All conversions raise ValueError if the value cannot be converted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from mnemosyne.formats.books.keys import split_keys

Convert = Callable[[Any], Any]

_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?", re.ASCII)
_YES = frozenset({"true", "yes", "on", "1"})
_NO = frozenset({"false", "no", "off", "0"})
_LARGEST = 2**53
"""Largest whole number that JavaScript, and so SillyTavern, represents exactly."""


def kind_of(value: Any) -> str:
    """Return the type of a JSON value in words, for a sentence: `a number`, `text`, `a list`, …"""
    if value is None:
        return "null"
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "true or false"),
        ((int, float), "a number"),
        (str, "text"),
        (list, "a list"),
        (Mapping, "an object"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "no JSON value")


def to_text(value: Any) -> str:
    """Return `value` if it is a text, or a number as a text. Raises ValueError for any other value."""
    if isinstance(value, str):
        return value
    if _is_number(value):
        return str(value)
    raise ValueError


def to_flag(value: Any) -> bool:
    """Return `value` as true or false. The numbers 1 and 0 and words like `yes` and `off` are converted. Raises ValueError
    for any other value.
    """
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else str(value) if value in (0, 1) else ""
    if word in _YES or word in _NO:
        return word in _YES
    raise ValueError


def to_other_flag(value: Any) -> bool:
    """Return the opposite of the flag that `to_flag` returns."""
    return not to_flag(value)


def to_number(value: Any) -> int | float:
    """Return `value` as a number. A text is converted, and whole numbers become `int`. Raises ValueError for any other
    value, and for a number beyond ±2**53.
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST <= value <= _LARGEST:
        raise ValueError
    return int(value) if value == math.trunc(value) else value


def to_count(value: Any) -> int:
    """Return `value` as a whole number of at least 0. Decimals are cut off. Raises ValueError for a negative number and for
    any other value.
    """
    number = math.trunc(to_number(value))
    if number < 0:
        raise ValueError
    return number


def to_level(value: Any) -> int:
    """Return `value` as a level of recursion, which is a whole number of at least 0. True becomes 1 and false becomes 0."""
    return int(value) if isinstance(value, bool) else to_count(value)


def one_of(names: Mapping[str, int], count: int) -> Convert:
    """Return a conversion to a whole number that is at least 0 and less than `count`.

    The conversion also accepts a name in `names`, in upper or lower case, and returns its number. A blank or hyphen in a
    name counts as an underscore.
    """

    def convert(value: Any) -> int:
        if isinstance(value, str) and (name := re.sub(r"[\s-]", "_", value.strip().lower())) in names:
            return names[name]
        number = to_number(value)
        if not isinstance(number, int) or not 0 <= number < count:
            raise ValueError
        return number

    return convert


def or_null(convert: Convert) -> Convert:
    """Return a conversion that leaves null unchanged and converts other values with `convert`.

    Null in an entry means that SillyTavern's global setting applies.
    """
    return lambda value: None if value is None else convert(value)


def to_keys(value: Any) -> list[str]:
    """Return `value` as a list of texts. A text is split at its commas. In a list, numbers become texts and other values are
    left out.
    """
    if isinstance(value, str):
        return split_keys(value)
    if not isinstance(value, list):
        return [to_text(value)]
    return [str(each) for each in value if isinstance(each, str) or _is_number(each)]


def to_joined(value: Any) -> str:
    """Return `value` as one text. A list of texts is joined with commas."""
    return ",".join(to_keys(value)) if isinstance(value, list) else to_text(value)


def to_character_filter(value: Any) -> dict[str, Any]:
    """Return a character filter. Its `names` and `tags` become lists of texts and its `isExclude` a flag; other fields
    are unchanged.

    Raises ValueError if `value` is not an object, or if one of these fields cannot be converted.
    """
    if not isinstance(value, Mapping):
        raise ValueError
    converted: dict[str, Any] = {}
    for name, part in value.items():
        if name in ("names", "tags"):
            converted[name] = [] if part is None else to_keys(part)
        elif name in ("isExclude", "is_exclude"):
            converted["isExclude"] = part is not None and to_flag(part)
        else:
            converted[name] = part
    return converted


def has_text(value: Any) -> bool:
    """Return whether a value that should be text is not empty."""
    return bool(value.strip()) if isinstance(value, str) else _is_number(value)


def has_keys(value: Any) -> bool:
    """Return whether a list of keys, or a text with keys between commas, contains a key that is not empty."""
    if isinstance(value, str):
        return bool(value.replace(",", "").strip())
    return any(has_text(each) for each in value) if isinstance(value, list) else has_text(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
