"""Describes formats (packs, documents, settings) as tables of fields, from which checks, schemas, pages and forms are made.

A shape describes one kind of value, such as a text, a number or a record with fields. Each shape can check and read a value
(`read`), and give its JSON Schema (`schema`), its words on a reference page (`describe`) and its control in a form (`control`).
So all four always agree.

A check does not stop at the first fault. A value with a fault is replaced by BROKEN, so all faults are found, and none twice.
"""

from __future__ import annotations

import json
import math
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, field, fields, is_dataclass, replace
from dataclasses import Field as ClassField
from enum import Enum, StrEnum
from typing import Any, Final

from mnemosyne.core.faults import FaultList, Severity, SourceLocation, Wording
from mnemosyne.core.plain_values import Path as KeyPath
from mnemosyne.core.plain_values import plain_faults, text_fault
from mnemosyne.values import dataclass

Definitions = dict[str, Any]
"""The `$defs` of a JSON Schema: schemas of records by name."""
_NO_RULES: Mapping[str, Any] = {}
_UNITS = ("tokens", "chars", "bytes", "ms", "seconds", "days", "turns", "messages", "mb")


class Broken:
    """The type of BROKEN."""

    def __repr__(self) -> str:
        return "BROKEN"


BROKEN: Final = Broken()


@dataclass(kw_only=True, slots=True)
class Reading:
    """State of one check of a tree of values.

    `faults` collects the faults. `root` is the place of the tree (a file and a path), and `wording` makes the sentences of faults.
    `is_plain` is true if the tree needs no check for values that cannot be stored. `ignored` collects allowed unknown keys.
    """

    faults: FaultList = field(default_factory=FaultList)
    root: SourceLocation = field(default_factory=SourceLocation)
    wording: Wording = field(default_factory=Wording)
    is_plain: bool = False
    ignored: list[str] = field(default_factory=list)

    def refuse(self, path: KeyPath, what: str, code: str = "value") -> Broken:
        """Record an error at `path` and return BROKEN. `what` completes a sentence about the value."""
        self.faults.add(replace(self.root, path=path), what, code=code)
        return BROKEN

    def warn(self, path: KeyPath, what: str, code: str) -> None:
        """Record a warning at `path`."""
        self.faults.add(replace(self.root, path=path), what, code=code, severity=Severity.WARNING)

    def is_unplain(self, value: Any, path: KeyPath) -> bool:
        """Record all parts of a tree that cannot be stored, and return whether there are any."""
        if self.is_plain:
            return False
        before = len(self.faults)
        for below, reason in plain_faults(value):
            self.refuse((*path, *below), reason, "plain")
        return len(self.faults) > before


Trouble = tuple[str, str]
"""(sentence, code) of a fault."""


class Shape:
    """Description of one kind of value. Each format can add shapes of its own as subclasses, in the module of its table."""

    __slots__ = ()

    def find_fault(self, value: Any, wording: Wording) -> Trouble | None:
        """Return the first fault of a value, or None if the value is valid."""
        return None

    def read(self, value: Any, path: KeyPath, reading: Reading) -> Any:
        """Return `value` in the form that the program uses. If it has faults, record all of them and return BROKEN."""
        if (trouble := self.find_fault(value, reading.wording)) is not None:
            return reading.refuse(path, *trouble)
        return BROKEN if reading.is_unplain(value, path) else value

    def schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        """Return the JSON Schema of the values. With `defs`, schemas of records are added to it and referred to by name."""
        return {}

    def describe(self) -> str:
        """Return the possible values in words, for a table."""
        return "any value"

    def control(self) -> dict[str, Any]:
        """Return the form control for such a value: its kind (key `control`), with choices and bounds if it has any."""
        return {"control": "json"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Text(Shape):
    """A text of at most `max_chars` characters (None: no limit).

    `pattern` is a regular expression that must match the whole text, and `hint` explains it. A blank text is allowed only if
    `blank` is true, and an empty text is refused if `filled` is true. Messages and forms never show a text that is `hidden`.
    """

    pattern: str = ""
    hint: str = ""
    blank: bool = False
    filled: bool = False
    hidden: bool = False
    max_chars: int | None = 200_000

    def find_fault(self, value: Any, wording: Wording) -> Trouble | None:
        if not isinstance(value, str):
            return wording.hidden("text") if self.hidden else wording.wrong_kind(value, "text"), "kind"
        if (self.filled and not value) or not (self.blank or value.strip()):
            return wording.empty(), "empty"
        if self.max_chars is not None and len(value) > self.max_chars:
            return f"has {len(value):,} characters; shorten it to {self.max_chars:,}", "value"
        if self.pattern and not re.fullmatch(self.pattern, value):
            return f"is {value[:80]!r}, which is not allowed; {self.hint}", "value"
        return None

    def read(self, value: Any, path: KeyPath, reading: Reading) -> Any:
        if isinstance(value, str) and not reading.is_plain and (reason := text_fault(value)):
            return reading.refuse(path, reason, "plain")
        trouble = self.find_fault(value, reading.wording)
        return value if trouble is None else reading.refuse(path, *trouble)

    def schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "string"}
        if self.max_chars is not None:
            made["maxLength"] = self.max_chars
        if self.pattern:
            made["pattern"] = f"^{self.pattern}$"
        elif not self.blank:
            made["pattern"] = r"\S"
        elif self.filled:
            made["minLength"] = 1
        return made

    def describe(self) -> str:
        return "text"

    def control(self) -> dict[str, Any]:
        return {"control": "password" if self.hidden else "text", **({"hint": self.hint} if self.hint else {})}


@dataclass(frozen=True, kw_only=True, slots=True)
class Number(Shape):
    """A number from `low` to `high`, both included. If `whole` is true, only whole numbers are allowed.

    If `cast` is true, the number is converted to an int (`whole`) or a float, and 3.0 counts as a whole number.
    """

    low: float | None = None
    high: float | None = None
    whole: bool = False
    cast: bool = False

    def find_fault(self, value: Any, wording: Wording) -> Trouble | None:
        wanted = "a whole number" if self.whole else "a number"
        if isinstance(value, bool) or not isinstance(value, int | float):
            return wording.wrong_kind(value, wanted), "kind"
        if self.whole and not isinstance(value, int) and not (self.cast and value.is_integer()):
            return wording.wrong_kind(value, wanted), "kind"
        # NaN compares false with everything, so the test is written as "within", not as "outside".
        if (self.low is None or value >= self.low) and (self.high is None or value <= self.high):
            return None
        return wording.outside(value, self.low, self.high), "value"

    def read(self, value: Any, path: KeyPath, reading: Reading) -> Any:
        if self.cast and not self.whole and isinstance(value, int) and not isinstance(value, bool):
            value = float(value) if abs(value) < 1e308 else math.inf if value > 0 else -math.inf
        read = super(Number, self).read(value, path, reading)
        return int(read) if self.whole and isinstance(read, float) else read

    def schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        return {"type": "integer" if self.whole else "number", **self._bounds()}

    def describe(self) -> str:
        name = "whole number" if self.whole else "number"
        if self.high is not None:
            return f"{name} {self.low:g}..{self.high:g}"
        return name if self.low is None else f"{name} from {self.low:g}"

    def control(self) -> dict[str, Any]:
        return {"control": "number", "step": 1 if self.whole else "any", **self._bounds()}

    def _bounds(self) -> dict[str, float]:
        bounds = {"minimum": self.low, "maximum": self.high}
        return {name: bound for name, bound in bounds.items() if bound is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag(Shape):
    """True or false."""

    def find_fault(self, value: Any, wording: Wording) -> Trouble | None:
        return None if isinstance(value, bool) else (wording.wrong_kind(value, "true or false"), "kind")

    def schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        return {"type": "boolean"}

    def describe(self) -> str:
        return "true or false"

    def control(self) -> dict[str, Any]:
        return {"control": "checkbox"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice(Shape):
    """One of the words in `words`."""

    words: tuple[str, ...]

    def find_fault(self, value: Any, wording: Wording) -> Trouble | None:
        if not isinstance(value, str):
            return wording.wrong_kind(value, f"one of {', '.join(self.words)}"), "kind"
        return None if value in self.words else (wording.no_choice(value, self.words), "value")

    def schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words)}

    def describe(self) -> str:
        return ", ".join(f"`{word}`" for word in self.words)

    def control(self) -> dict[str, Any]:
        return {"control": "select", "choices": list(self.words)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Anything(Shape):
    """Any value that JSON can represent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Many(Shape):
    """A list of values of one shape, with at least `least` items.

    If `whole` is true, the list is read as a tuple, and one broken item makes all of it BROKEN. Otherwise it is read as a list in
    which BROKEN replaces each broken item.
    """

    item: Shape
    least: int = 0
    whole: bool = False

    def find_fault(self, value: Any, wording: Wording) -> Trouble | None:
        if not isinstance(value, list | tuple):
            return wording.wrong_kind(value, "a list"), "kind"
        if len(value) < self.least:
            return wording.too_few(len(value), self.least), "empty"
        return next((trouble for item in value if (trouble := self.item.find_fault(item, wording))), None)

    def read(self, value: Any, path: KeyPath, reading: Reading) -> Any:
        if not isinstance(value, list | tuple) or len(value) < self.least:
            return super(Many, self).read(value, path, reading)
        made = [self.item.read(item, (*path, index), reading) for index, item in enumerate(value)]
        if not self.whole:
            return made
        return BROKEN if any(item is BROKEN for item in made) else tuple(made)

    def schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        least = {"minItems": self.least} if self.least else {}
        return {"type": "array", "items": self.item.schema(defs), **least}

    def describe(self) -> str:
        return f"list of {self.item.describe()}"

    def control(self) -> dict[str, Any]:
        if isinstance(self.item, Choice):
            return {"control": "checkboxes", "choices": list(self.item.words)}
        return {"control": "list", "item": self.item.control()}


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyedValues(Shape):
    """A mapping to values of one shape. The keys are any texts, or only the texts in `keys` if that is not empty."""

    item: Shape
    keys: tuple[str, ...] = ()

    def find_fault(self, value: Any, wording: Wording) -> Trouble | None:
        if not isinstance(value, Mapping):
            return wording.wrong_kind(value, "a mapping"), "kind"
        for key, item in value.items():
            if trouble := self._find_key_fault(key, wording) or self.item.find_fault(item, wording):
                return f"{key}: {trouble[0]}", trouble[1]
        return None

    def read(self, value: Any, path: KeyPath, reading: Reading) -> Any:
        if not isinstance(value, Mapping):
            return super(KeyedValues, self).read(value, path, reading)
        made: dict[str, Any] = {}
        for key, item in value.items():
            here = (*path, str(key))
            if trouble := self._find_key_fault(str(key), reading.wording):
                made[str(key)] = reading.refuse(here, *trouble)
            else:
                made[str(key)] = self.item.read(item, here, reading)
        return BROKEN if any(item is BROKEN for item in made.values()) else made

    def schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        item = self.item.schema(defs)
        keys = {"propertyNames": {"enum": list(self.keys)}} if self.keys else {}
        return {"type": "object", **({"additionalProperties": item} if item else {}), **keys}

    def describe(self) -> str:
        keys = f" of {Choice(words=self.keys).describe()}" if self.keys else ""
        return f"mapping{keys} to {'mappings' if isinstance(self.item, KeyedValues) else self.item.describe()}"

    def control(self) -> dict[str, Any]:
        return {"control": "mapping", "item": self.item.control(), **({"keys": list(self.keys)} if self.keys else {})}

    def _find_key_fault(self, key: str, wording: Wording) -> Trouble | None:
        return (wording.unknown_of(key, self.keys), "unknown") if self.keys and key not in self.keys else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One key of a record, with the shape of its value.

    - `doc`: a sentence about the key for people.
    - `fallback`: the default, for a key that is not `required`.
    - `attribute`: name of the field in the program, if it differs from `name`.
    - `nullable`: whether null counts as the default. None means that it does if the key is not required.
    - `rules`: further rules, such as who may set the key.
    """

    name: str
    shape: Shape
    doc: str = ""
    required: bool = False
    fallback: Any = None
    attribute: str = ""
    nullable: bool | None = None
    rules: Mapping[str, Any] = field(default_factory=lambda: _NO_RULES)

    @property
    def takes_null(self) -> bool:
        """Whether the value null counts as the default."""
        return not self.required if self.nullable is None else self.nullable

    @property
    def default(self) -> Any:
        """The default as a JSON value. It is None for a record, because its keys have defaults of their own."""
        return None if is_dataclass(self.fallback) else to_json(self.fallback)

    def schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        """Return the JSON Schema of the value of this key."""
        made = self.shape.schema(defs)
        if self.takes_null:
            made = _or_null(made)
        doc = {"description": self.doc} if self.doc else {}
        is_shown = self.default is not None and not self.required and not isinstance(self.shape, Record)
        return {**made, **doc, **({"default": self.default} if is_shown else {})}

    def describe(self) -> str:
        """Return the possible values of the key in words."""
        return f"{self.shape.describe()}, or none" if self.nullable else self.shape.describe()

    def describe_default(self) -> str:
        """Return the default as Markdown for a table."""
        if self.required:
            return "**needed**"
        if self.default in (None, {}, [], ""):
            return "none"
        return f"`{self.default if isinstance(self.default, str) else json.dumps(self.default, ensure_ascii=False)}`"

    def control(self) -> dict[str, Any]:
        """Return the form control for this key: its label, kind, choices, bounds, unit, default and help text."""
        unit = self.name.rpartition("_")[2]
        return {
            "key": self.name,
            "label": self.name.replace("_", " ").capitalize(),
            **self.shape.control(),
            **({"unit": unit} if unit in _UNITS and isinstance(self.shape, Number) else {}),
            "required": self.required,
            "default": self.default,
            "help": self.doc or getattr(self.shape, "doc", ""),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Record(Shape):
    """A mapping with known keys (`fields`).

    `name` names it in schemas, and `label` in sentences (`a quest`). `of` is the class of its values in the program, if it has one.
    """

    name: str
    label: str
    fields: tuple[Field, ...]
    of: type | None = None
    doc: str = ""

    def read(self, value: Any, path: KeyPath, reading: Reading) -> Any:
        """Return the value that `build` makes from the values of the keys. A missing key has its default."""
        if not isinstance(value, Mapping):
            return reading.refuse(path, reading.wording.wrong_kind(value, self._wanted()), "kind")
        known = tuple(each.name for each in self.fields)
        unknown = tuple(key for key in value if key not in known)
        self.pass_unknown(unknown, value, path, reading)
        made = {each.name: self._read_field(each, value, unknown, path, reading) for each in self.fields}
        return self.build(made, value, path, reading)

    def pass_unknown(self, unknown: tuple[Any, ...], value: Mapping[Any, Any], path: KeyPath, reading: Reading) -> None:
        """Record an error for each key in `unknown`."""
        known = tuple(each.name for each in self.fields)
        unwritten = tuple(name for name in known if name not in value)
        for key in unknown:
            if not isinstance(key, str):
                what = f"has the key {key!r}, which is not text; known keys: {', '.join(known)}"
                reading.refuse(path, what, "unknown")
            elif reading.faults.is_full:
                reading.refuse((*path, key), "", "unknown")
            else:
                reading.refuse(
                    (*path, key), reading.wording.unknown(key, path, self.label, known, unwritten), "unknown"
                )

    def build(self, made: dict[str, Any], value: Mapping[Any, Any], path: KeyPath, reading: Reading) -> Any:
        """Return the value of the record. Here this is a dict of `made` (the values that were read) without broken values."""
        return {name: item for name, item in made.items() if item is not BROKEN}

    def _wanted(self) -> str:
        return "a mapping"

    def _read_field(
        self, each: Field, value: Mapping[Any, Any], unknown: tuple[Any, ...], path: KeyPath, reading: Reading
    ) -> Any:
        if each.name not in value:
            if not each.required:
                return each.fallback
            words = tuple(key for key in unknown if isinstance(key, str))
            return reading.refuse((*path, each.name), reading.wording.missing(each.name, each.doc, words), "missing")
        item = value[each.name]
        return each.fallback if item is None and each.takes_null else each.shape.read(item, (*path, each.name), reading)

    def schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        if defs is not None:
            if self.name not in defs:
                defs[self.name] = {}
                defs[self.name] = self.object_schema(defs)
            return {"$ref": f"#/$defs/{self.name}"}
        return self.object_schema(defs)

    def object_schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        """Return the JSON Schema of the record, written out. Records inside of it are added to `defs`, if that is given."""
        required = [each.name for each in self.fields if each.required]
        return {
            **({"description": self.doc} if self.doc else {}),
            "type": "object",
            "properties": {each.name: each.schema(defs) for each in self.fields},
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }

    def describe(self) -> str:
        return self.name.replace("_", " ") if self.of is None else "mapping"

    def control(self) -> dict[str, Any]:
        return {"control": "group", "fields": [each.control() for each in self.fields]}


Rules = Mapping[str, Any]
"""Facts about a field that its type cannot express, by these keys:

- `name`: the name in JSON.
- `doc`: a sentence for people.
- `low`, `high`: limits of a number.
- `words`, `keys`: the possible values, or the possible keys of a mapping.
- `filled`: it must not be empty.
- `hidden`: it is a credential.
- `required`, `nullable`: as in `Field`.
- `parts`: sentences about the fields of the class that is its type.
"""


@dataclass(frozen=True, kw_only=True)
class TypeTables:
    """Makes tables (records) from the dataclasses of one format, one table for each class.

    - `rules` returns the rules of a field, or None if the field has no key in the format.
    - `record` makes a record: Record or a subclass.
    - `choice` makes the shape of an enum.
    - `shapes` has the shapes of types that need a special shape.
    - `made` collects the tables by class.
    """

    rules: Callable[[type, ClassField[Any]], Rules | None]
    record: Callable[..., Record] = Record
    choice: Callable[[type[StrEnum]], Shape] | None = None
    shapes: Mapping[Any, Shape]
    made: dict[type, Record]

    def record_of(self, cls: type, parts: Mapping[str, str] | None = None) -> Record:
        """Return the table of a dataclass. `parts` has sentences for fields whose rules have no sentence."""
        if cls not in self.made:
            self.made[cls] = self.record(
                name=cls.__name__,
                label=cls.__name__,
                fields=tuple(self._fields_of(cls, parts or {})),
                of=cls,
                doc=" ".join((cls.__doc__ or "").split("\n\n")[0].split()),
            )
        return self.made[cls]

    def _fields_of(self, cls: type, parts: Mapping[str, str]) -> Iterator[Field]:
        hints = typing.get_type_hints(cls)
        for each in fields(cls):
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


def iterate_records(shape: Shape) -> Iterator[Record]:
    """Yield every record in a shape. An outer record comes before the records inside of it."""
    if isinstance(shape, Record):
        yield shape
        for each in shape.fields:
            yield from iterate_records(each.shape)
    elif (inner := getattr(shape, "item", None) or getattr(shape, "record", None)) is not None:
        yield from iterate_records(inner)


def to_json(value: Any) -> Any:
    """Return a value as a JSON value: enums become their values, and tuples become lists."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(each) for key, each in value.items()}
    return [to_json(each) for each in value] if isinstance(value, list | tuple) else value


def format_table(heads: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """Return a Markdown table with the column heads `heads` and the cells of `rows`."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n".replace("||", "\\|\\|") for cells in lines)


def schema_document(schema: Mapping[str, Any]) -> str:
    """Return a JSON Schema (2020-12) as the text of a file."""
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that also allows null."""
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    made = dict(schema)
    if "anyOf" in made:
        made["anyOf"] = [*made["anyOf"], {"type": "null"}]
    if "enum" in made:
        made["enum"] = [*made["enum"], None]
    if "type" in made:
        made["type"] = [made["type"], "null"]
    return made
