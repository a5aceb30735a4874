"""Defines the fields of settings (default, bounds and meaning), and makes the table of a section from them.

The same bounds apply to settings from code, files and the environment, and `jacquard.config.reference` publishes them.
This module must not import a section. The metadata of a field has these keys:

- `doc`: the meaning of the field, in one sentence
- `low`, `high`: bounds of a number, both included
- `words`: the allowed texts
- `keys`: the allowed keys of a mapping
- `parts`: sentences for the fields of a value whose class is not a section
- `credential`: the form in which the text contains a credential (`Credential`)
- `call`: the values to which a call of the service may set the field (see `ANY`); if it is None, a call may not set it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, field, is_dataclass, replace
from dataclasses import Field as ClassField
from enum import Enum, StrEnum
from math import inf
from typing import Any

from jacquard.core.errors import ConfigError
from mnemosyne.core.faults import Wording
from mnemosyne.schema.memory import EMPTY
from mnemosyne.shapes import BROKEN, Field, Reading, Record, TypeTables
from mnemosyne.values import dataclass

ANY = inf
"""Value of the key `call`: a call of the service may set the field to any value within its bounds.

If `call` is a number, a call may set at most this number, or the service's own value if that is higher.
"""

LOWER = -inf
"""Value of the key `call`: a call of the service may lower the field, but not raise it.

Lower is a smaller number, false, an earlier word, or a mapping to smaller numbers.
"""


SECTION = "a mapping of settings"


def plain_field(
    default: Any = MISSING,
    *,
    doc: str,
    default_factory: Any = MISSING,
    shown: bool = True,
    call: float | None = None,
) -> Any:
    """Return a field without bounds and without credentials. If `shown` is false, the section's `repr` leaves the field out."""
    metadata = {"doc": doc, "call": call}
    if default_factory is not MISSING:
        return field(default_factory=default_factory, repr=shown, metadata=metadata)
    return field(default=default, repr=shown, metadata=metadata)


class Credential(StrEnum):
    """Form in which the text of a setting contains a credential. `jacquard.config.sections` hides the text accordingly."""

    KEY = "key"
    """The whole text is a credential."""
    ADDRESS = "address"
    """The text is an address, which may contain a user, a password and keys."""
    ARGUMENT = "argument"
    """The text is the name of a part. If the part is a plugin, its argument (`NAME:ARGUMENT`) may be an address."""


def credential_field(default: str | None, holds: Credential, *, doc: str) -> Any:
    """Return a field whose text may contain a credential, in the form `holds`.

    The value is in no `repr`, and it is hidden whenever settings are stored or shown.
    """
    return field(default=default, repr=False, metadata={"doc": doc, "credential": holds})


def bounded_field(
    default: Any, low: float | None = None, high: float | None = None, *, doc: str, call: float | None = None
) -> Any:
    """Return a field whose number lies between `low` and `high`, both included; None means no bound."""
    return field(default=default, metadata={"low": low, "high": high, "doc": doc, "call": call})


def choice_field(default: str, *words: str, doc: str, call: float | None = None) -> Any:
    """Return a field whose value is one of `words`."""
    return field(default=default, metadata={"words": words, "doc": doc, "call": call})


def choices_field(default: tuple[str, ...], *words: str, doc: str, call: float | None = None) -> Any:
    """Return a field whose value is a list of some of `words`."""
    return field(default=default, metadata={"words": words, "doc": doc, "call": call})


def numbers_field(words: Iterable[str], low: float, *, doc: str, call: float | None = None) -> Any:
    """Return a field that maps some of `words` to numbers. Each number is at least `low`."""
    return field(default_factory=lambda: EMPTY, metadata={"keys": tuple(words), "low": low, "doc": doc, "call": call})


def _plain_words(value: Any) -> Any:
    """Return texts for members of an enum, and a tuple for a list; any other value unchanged."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        items = tuple(map(_plain_words, value))
        return value if isinstance(value, tuple) and all(a is b for a, b in zip(items, value, strict=True)) else items
    if isinstance(value, Mapping) and any(isinstance(key, Enum) for key in value):
        return {_plain_words(key): one for key, one in value.items()}
    return value


class SettingWording(Wording):
    """Sentences that explain faults of settings."""

    def wrong_kind(self, value: Any, wanted: str) -> str:
        """Return a sentence with the value and its required form. For a section it leaves out the value, which may be a key."""
        return f"must be {wanted}" if wanted == SECTION else f"is {self.show(value)}, but must be {wanted}"

    def show(self, value: Any) -> str:
        """Return `value` as it is written in a sentence."""
        return repr(value)

    def no_choice(self, value: str, words: tuple[str, ...]) -> str:
        """Return a sentence that lists all allowed words."""
        return f"is {value[:80]!r}, but must be one of {', '.join(words)}"

    def missing(self, name: str, doc: str, unknown: tuple[str, ...]) -> str:
        """Return a remedy for a missing setting that has no default."""
        return "is missing; add it"

    def unknown_of(self, key: str, known: tuple[str, ...]) -> str:
        """Return a sentence that lists all known names."""
        return f"is no setting; there are {', '.join(known)}"


@dataclass(kw_only=True, slots=True)
class SettingsReading(Reading):
    """State while settings are checked. A setting that is not given gets its value from `base`.

    `base_path` is the path at which the checked settings begin; `base` contains the values below this path.
    """

    wording: Wording = field(default_factory=SettingWording)
    is_plain: bool = True
    base: Any = None
    base_path: tuple[str | int, ...] = ()

    def base_at(self, path: tuple[str | int, ...]) -> Any:
        """Return the section of `base` at the path `path`, or None if `base` has no such section."""
        found = self.base
        for step in path[len(self.base_path) :]:
            found = getattr(found, str(step), None) if is_dataclass(found) else None
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Section(Record):
    """Table of a section of settings. A setting that is not given gets its value from the reading's `base`, else its default."""

    def build(self, made: dict[str, Any], value: Mapping[Any, Any], path: Any, reading: Reading) -> Any:
        """Return the section with the values `made`, or BROKEN.

        BROKEN means that its settings exclude each other, or that a setting without a default is missing.
        """
        given = {name: one for name, one in made.items() if name in value and one is not BROKEN}
        base = reading.base_at(path) if isinstance(reading, SettingsReading) else None
        if base is None and any(each.required and each.name not in given for each in self.fields):
            return BROKEN
        assert self.of is not None
        try:
            return self.of(**given) if base is None else replace(base, **given)
        except ConfigError as error:
            return reading.refuse(path, str(error).removeprefix(f"{self.of.__name__}: "))

    def _wanted(self) -> str:
        return SECTION


def _rules(kind: type, each: ClassField[Any]) -> Mapping[str, Any]:
    return {
        **each.metadata,
        "hidden": each.metadata.get("credential") in (Credential.KEY, Credential.ADDRESS),
        "is_bounded": any(each.metadata.get(bound) is not None for bound in ("words", "keys", "low", "high")),
    }


_TABLES = TypeTables(rules=_rules, record=Section, shapes={}, made={})
_WORDING = SettingWording()


def table_of(section: type) -> Record:
    """Return the table of the section class `section`: its fields, with their types, bounds and meanings."""
    return _TABLES.record_of(section)


def is_section(each: Field) -> bool:
    """Return whether a field contains a section, and is never None."""
    return isinstance(each.shape, Record) and not each.nullable


def check(section: Any) -> None:
    """Check the values of a section. Enum members become texts, and lists become tuples, in fields with allowed words.

    Raises ConfigError that names every field whose value is not allowed.
    """
    faults = []
    for each in table_of(type(section)).fields:
        if not each.rules.get("is_bounded"):
            continue
        value = getattr(section, each.name)
        if "words" in each.rules or "keys" in each.rules:
            plain = _plain_words(value)
            if plain is not value:
                object.__setattr__(section, each.name, plain)
            value = plain
        if value is None and each.takes_null:
            continue
        if (trouble := each.shape.find_fault(value, _WORDING)) is not None:
            faults.append(f"{type(section).__name__}.{each.name}: {trouble[0]}")
    if faults:
        raise ConfigError("\n".join(faults))
