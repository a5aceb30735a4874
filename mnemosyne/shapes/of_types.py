"""Tables of dataclasses: names, kinds and defaults come from the class itself, and what a type cannot express from rules."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, is_dataclass
from dataclasses import Field as ClassField
from dataclasses import fields as class_fields
from enum import StrEnum
from typing import Any

from mnemosyne.shapes.shapes import Anything, Choice, Field, Flag, KeyedValues, Many, Number, Record, Shape, Text

Rules = Mapping[str, Any]
"""Facts about a field that its type cannot express: `name` (in JSON), `doc`, `low`, `high`, `words`, `keys`, `filled` (it may
not be empty), `hidden` (a credential), `required`, `nullable`, and `parts` (sentences of the fields of the class that is its type).
"""


@dataclass(frozen=True, kw_only=True)
class TypeTables:
    """Makes the tables of one kind of file, each once.

    `rules` returns the rules of a field, or None for one that has no key. `record` makes a record (a subclass of Record), and
    `shapes` the shape of each type that has one of its own; `choice` is that of an enum.
    """

    rules: Callable[[type, ClassField[Any]], Rules | None]
    record: Callable[..., Record] = Record
    choice: Callable[[type[StrEnum]], Shape] | None = None
    shapes: Mapping[Any, Shape]
    made: dict[type, Record]

    def record_of(self, cls: type, parts: Mapping[str, str] | None = None) -> Record:
        """Return the table of a dataclass; `parts` are sentences of fields that have none."""
        if cls not in self.made:
            self.made[cls] = self.record(
                name=cls.__name__,
                label=cls.__name__,
                fields=tuple(self._fields_of(cls, parts or {})),
                of=cls,
                doc=" ".join((cls.__doc__ or "").split("\n\n")[0].split()),
            )
        return self.made[cls]

    def _fields_of(self, cls: type, parts: Mapping[str, str]) -> typing.Iterator[Field]:
        hints = typing.get_type_hints(cls)
        for each in class_fields(cls):
            rules = self.rules(cls, each)
            if rules is None:
                continue
            default = each.default if each.default_factory is MISSING else each.default_factory()
            hint, is_optional = _strip_optional(hints[each.name])
            yield Field(
                name=rules.get("name", each.name),
                attribute=each.name,
                shape=self._shape_of(hint, rules),
                doc=rules.get("doc", parts.get(each.name, "")),
                required=default is MISSING or rules.get("required", False),
                fallback=None if default is MISSING else default,
                nullable=is_optional or rules.get("nullable", False),
                rules=rules,
            )

    def _shape_of(self, hint: Any, rules: Rules) -> Shape:
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if hint in self.shapes:
            return self.shapes[hint]
        if hint is str and (words := rules.get("words")):
            return Choice(words=tuple(map(str, words)))
        if hint is str:
            filled, hidden = rules.get("filled", False), rules.get("hidden", False)
            return Text(blank=True, max_chars=None, filled=filled, hidden=hidden)
        if hint in (int, float):
            return Number(low=rules.get("low"), high=rules.get("high"), whole=hint is int, cast=True)
        if hint is bool:
            return Flag()
        if hint is Any:
            return Anything()
        if origin is tuple:
            return Many(item=self._shape_of(arguments[0], rules), least=int(rules.get("filled", False)), whole=True)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return KeyedValues(item=self._shape_of(arguments[1], rules), keys=tuple(map(str, rules.get("keys", ()))))
        if isinstance(hint, type) and issubclass(hint, StrEnum) and self.choice is not None:
            return self.choice(hint)
        if is_dataclass(hint) and isinstance(hint, type):
            return self.record_of(hint, rules.get("parts"))
        raise TypeError(f"{hint!r} has no shape")


def _strip_optional(hint: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether None was one of its values."""
    if typing.get_origin(hint) not in (types.UnionType, typing.Union):
        return hint, False
    return next(each for each in typing.get_args(hint) if each is not type(None)), True
