"""Shapes of values, in which the tables of `fields` are written.

Check, JSON Schema and the authors' page are all made from these values, so that they always agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

IDENTIFIER = r"[^\s\x00-\x1f\x7f./~]{1,128}"
SLUG = r"[a-z0-9][a-z0-9_-]{0,63}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """Text. `pattern` must match the whole text; `hint` explains the pattern; `blank` allows the empty text."""

    pattern: str = ""
    hint: str = ""
    blank: bool = False
    max_chars: int = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Number:
    """A number between `low` and `high`, both included; `whole` for whole numbers only."""

    low: float | None = None
    high: float | None = None
    whole: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """True or false."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Anything:
    """Any plain value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """A single value, alone or as `[value, description]`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """A mapping with free keys and plain values, checked further elsewhere."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Many:
    """A list of one shape; `least` is the smallest length."""

    item: Shape
    least: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A mapping with known keys; `name` for programs, `label` for sentences (`a quest`)."""

    name: str
    label: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ShortCondition:
    """A condition as a mapping, or, where `short`, also as text (`hero.health > 20`)."""

    record: Record
    short: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class OpList:
    """An op in the flat-path spelling: `[VERB, path, value]`; `short` verbs may have no value, `bare` ones must not
    have one.
    """

    verbs: tuple[str, ...]
    short: tuple[str, ...]
    bare: tuple[str, ...]


Shape = Text | Number | Flag | Choice | Anything | Described | Tree | Many | Record | ShortCondition | OpList


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One key of a record: its shape, whether it is required, its default, and a sentence for authors."""

    name: str
    shape: Shape
    doc: str
    required: bool = False
    fallback: Any = None
    where: str = ""


def identifier() -> Text:
    """Return the shape of an id."""
    return Text(pattern=IDENTIFIER, hint="an id has 1 to 128 characters, none of them a space, '.', '/' or '~'")
