"""Defines the fields of settings: default, bounds and meaning, and finds what is wrong with a value.

The same bounds apply to settings from code, files and the environment, and `jacquard.config.reference` publishes them.
This module must not import a section. The metadata of a field has the keys `doc` (one sentence), `low` and `high`
(bounds of a number, both included), `words` (the texts that it can be), `keys` (the keys of a mapping), `parts`
(sentences of the fields of a value that is declared elsewhere), `credential` (how the text holds one: `Credential`) and
`call` (whether a call of the service may set it: see `ANY`; without it none may).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, field, fields
from enum import Enum, StrEnum
from math import inf
from typing import Any

from jacquard.core.errors import ConfigError
from mnemosyne.schema.memory import EMPTY

ANY = inf
"""A call may set the field to any value of its bounds. A number instead of it is the most that a call may set, where the service
itself has less.
"""

LOWER = -inf
"""A call may lower the field, never raise it: a smaller number, false, an earlier word, smaller numbers of a mapping."""


def plain_field(
    default: Any = MISSING,
    *,
    doc: str,
    default_factory: Any = MISSING,
    shown: bool = True,
    call: float | None = None,
) -> Any:
    """Return a field without bounds and without credentials; with `shown` false it is left out of the section's `repr`."""
    metadata = {"doc": doc, "call": call}
    if default_factory is not MISSING:
        return field(default_factory=default_factory, repr=shown, metadata=metadata)
    return field(default=default, repr=shown, metadata=metadata)


class Credential(StrEnum):
    """How the text of a setting holds a credential; `jacquard.config.sections` hides it accordingly."""

    KEY = "key"
    """The whole text is one."""
    ADDRESS = "address"
    """It is an address, which may hold user, password and keys."""
    ARGUMENT = "argument"
    """It names a part, and the argument of a plugin (`NAME:ARGUMENT`) may be an address."""


def credential_field(default: str | None, holds: Credential, *, doc: str) -> Any:
    """Return a field that may hold a credential: its value is in no `repr`, and hidden in whatever is stored or shown."""
    return field(default=default, repr=False, metadata={"doc": doc, "credential": holds})


def bounded_field(
    default: Any, low: float | None = None, high: float | None = None, *, doc: str, call: float | None = None
) -> Any:
    """Return a field whose number lies between `low` and `high`, both included; None means no bound."""
    return field(default=default, metadata={"low": low, "high": high, "doc": doc, "call": call})


def choice_field(default: str, *words: str, doc: str, call: float | None = None) -> Any:
    """Return a field whose value is one of a few words."""
    return field(default=default, metadata={"words": words, "doc": doc, "call": call})


def choices_field(default: tuple[str, ...], *words: str, doc: str, call: float | None = None) -> Any:
    """Return a field whose value is a list of some of these words."""
    return field(default=default, metadata={"words": words, "doc": doc, "call": call})


def numbers_field(words: Iterable[str], low: float, *, doc: str, call: float | None = None) -> Any:
    """Return a field that maps some of these words to a number that is at least `low`."""
    return field(default_factory=lambda: EMPTY, metadata={"keys": tuple(words), "low": low, "doc": doc, "call": call})


def find_key_fault(metadata: Mapping[str, Any], key: str) -> str | None:
    """Return what is wrong with a key of a field that is a mapping, or None."""
    words = metadata.get("keys")
    return None if words is None or key in words else f"is no setting; there are {', '.join(words)}"


def find_fault(metadata: Mapping[str, Any], value: Any) -> str | None:
    """Return what is wrong with the value of a field, or None; for a list or mapping, what is wrong with its first
    faulty item.
    """
    if isinstance(value, Mapping):
        found = ((key, find_key_fault(metadata, key) or find_fault(metadata, one)) for key, one in value.items())
        return next((f"{key}: {fault}" for key, fault in found if fault), None)
    if isinstance(value, tuple):
        return next((fault for one in value if (fault := find_fault(metadata, one))), None)
    words = metadata.get("words")
    if words is not None and value not in words:
        return f"is {value!r}, but must be one of {', '.join(words)}"
    low, high = metadata.get("low"), metadata.get("high")
    if value is None or (low is None and high is None):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"is {value!r}, but must be a number"
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        bounds = f"{low:g} or more" if high is None else f"between {low:g} and {high:g}"
        return f"is {value}; it must be {bounds}"
    return None


def _plain_words(value: Any) -> Any:
    """Return texts for members of an enum, and a tuple for a list; the same value where there is neither."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        items = tuple(map(_plain_words, value))
        return value if isinstance(value, tuple) and all(a is b for a, b in zip(items, value, strict=True)) else items
    if isinstance(value, Mapping) and any(isinstance(key, Enum) for key in value):
        return {_plain_words(key): one for key, one in value.items()}
    return value


def find_section_faults(section: Any) -> Iterator[tuple[str, str]]:
    """Yield (field, what is wrong) for each faulty field of one section."""
    for each in fields(section):
        fault = find_fault(each.metadata, getattr(section, each.name))
        if fault is not None:
            yield each.name, fault


def check(section: Any) -> None:
    """Raise ConfigError that names every field of a section whose value is not allowed.

    Words may be given as members of an enum and lists as lists. The section then holds texts and tuples.
    """
    for each in fields(section):
        value = getattr(section, each.name)
        plain = _plain_words(value) if "words" in each.metadata or "keys" in each.metadata else value
        if plain is not value:
            object.__setattr__(section, each.name, plain)
    faults = [f"{type(section).__name__}.{name}: {fault}" for name, fault in find_section_faults(section)]
    if faults:
        raise ConfigError("\n".join(faults))
