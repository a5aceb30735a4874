"""Shapes of values, in which the tables of packs, documents and settings are written.

From one table come the check of a tree (`read`), the JSON Schema (`schema`), the words of a reference page (`describe`) and
the controls of a form (`control`), so that they always agree. A value with a fault becomes BROKEN, and the check goes on, so
that all faults are found and none twice.
"""

from __future__ import annotations

import json
import math
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from dataclasses import Field as ClassField
from enum import Enum, StrEnum
from typing import Any, Final

from mnemosyne.core.faults import FaultList, Severity, SourceLocation, Wording
from mnemosyne.core.plain_values import Path as KeyPath
from mnemosyne.core.plain_values import plain_faults, text_fault

Definitions = dict[str, Any]
"""The `$defs` of a JSON Schema: the records in it by name."""
_NO_RULES: Mapping[str, Any] = {}
_UNITS = ("tokens", "chars", "bytes", "ms", "seconds", "days", "turns", "messages", "mb")


class Broken:
    """The type of BROKEN."""

    def __repr__(self) -> str:
        return "BROKEN"


BROKEN: Final = Broken()


@dataclass(kw_only=True, slots=True)
class Reading:
    """One check of a tree: where the tree is from, and what was found in it.

    `is_plain`: the tree was checked for what cannot be stored, or need not be. `ignored`: unknown keys that are allowed.
    """

    faults: FaultList = field(default_factory=FaultList)
    root: SourceLocation = field(default_factory=SourceLocation)
    wording: Wording = field(default_factory=Wording)
    is_plain: bool = False
    ignored: list[str] = field(default_factory=list)

    def refuse(self, path: KeyPath, what: str, code: str = "value") -> Broken:
        """Record an error and return BROKEN."""
        self.faults.add(replace(self.root, path=path), what, code=code)
        return BROKEN

    def warn(self, path: KeyPath, what: str, code: str) -> None:
        """Record a warning."""
        self.faults.add(replace(self.root, path=path), what, code=code, severity=Severity.WARNING)

    def is_unplain(self, value: Any, path: KeyPath) -> bool:
        """Return whether a tree holds what cannot be stored, after recording it."""
        if self.is_plain:
            return False
        before = len(self.faults)
        for below, reason in plain_faults(value):
            self.refuse((*path, *below), reason, "plain")
        return len(self.faults) > before


Trouble = tuple[str, str]
"""The sentence of a fault, and its code."""


class Shape:
    """One shape of values. Shapes of one kind of file have subclasses in the module of its table."""

    __slots__ = ()

    def find_fault(self, value: Any, wording: Wording) -> Trouble | None:
        """Return what is wrong with a single value, or None."""
        return None

    def read(self, value: Any, path: KeyPath, reading: Reading) -> Any:
        """Return `value` as the program uses it, or BROKEN after recording every fault in it."""
        if (trouble := self.find_fault(value, reading.wording)) is not None:
            return reading.refuse(path, *trouble)
        return BROKEN if reading.is_unplain(value, path) else value

    def schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        """Return the JSON Schema; records go into `defs` if there are any, else they are written in place."""
        return {}

    def describe(self) -> str:
        """Return in words which values there can be, for a table."""
        return "any value"

    def control(self) -> dict[str, Any]:
        """Return the control by which a form sets it: its kind (`control`), choices and bounds."""
        return {"control": "json"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Text(Shape):
    """Text. `pattern` must match the whole text; `hint` explains the pattern; `blank` allows spaces only; `filled` refuses
    nothing at all; of a `hidden` one nothing is shown.
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
    """A number between `low` and `high`, both included; `whole` for whole numbers only. `cast`: the value becomes an int or a
    float, and 3.0 is a whole number.
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
    """One of a few words."""

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
    """Any plain value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Many(Shape):
    """A list of one shape; `least` is the smallest length. `whole`: read as a tuple, and BROKEN if an item is; otherwise a list
    has BROKEN in place of such an item.
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
    """A mapping from free keys, or from some of `keys`, to values of one shape."""

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
    """One key of a record: its shape, whether it is required, its default (`fallback`), and a sentence for people.

    `attribute` is its name in a program, if that is another one. `nullable`: null counts as the default; an optional key is that
    unless it says otherwise. `rules` are what else holds for it, such as who may set it.
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
        """Whether null counts as the default."""
        return not self.required if self.nullable is None else self.nullable

    @property
    def default(self) -> Any:
        """The default as a JSON value; None for a record, whose keys have their own."""
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
        """Return in words which values the key can have."""
        return f"{self.shape.describe()}, or none" if self.nullable else self.shape.describe()

    def describe_default(self) -> str:
        """Return the default as a table shows it."""
        if self.required:
            return "**needed**"
        if self.default in (None, {}, [], ""):
            return "none"
        return f"`{self.default if isinstance(self.default, str) else json.dumps(self.default, ensure_ascii=False)}`"

    def control(self) -> dict[str, Any]:
        """Return the control of a form for this key: label, kind, choices, bounds, unit, default and help."""
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
    """A mapping with known keys; `name` for programs, `label` for sentences (`a quest`). `of` is the class whose value it is."""

    name: str
    label: str
    fields: tuple[Field, ...]
    of: type | None = None
    doc: str = ""

    def read(self, value: Any, path: KeyPath, reading: Reading) -> Any:
        """Return the value that `build` makes of the sound keys, defaults filled in."""
        if not isinstance(value, Mapping):
            return reading.refuse(path, reading.wording.wrong_kind(value, self._wanted()), "kind")
        known = tuple(each.name for each in self.fields)
        unknown = tuple(key for key in value if key not in known)
        self.pass_unknown(unknown, value, path, reading)
        made = {each.name: self._read_field(each, value, unknown, path, reading) for each in self.fields}
        return self.build(made, value, path, reading)

    def pass_unknown(self, unknown: tuple[Any, ...], value: Mapping[Any, Any], path: KeyPath, reading: Reading) -> None:
        """Record the keys that are not known."""
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
        """Return the value of the record, from what its fields became: here without the broken ones."""
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
        """Return the JSON Schema of the record itself, never a reference to it."""
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
    """Yield every record of a shape, each before those within it."""
    if isinstance(shape, Record):
        yield shape
        for each in shape.fields:
            yield from iterate_records(each.shape)
    elif (inner := getattr(shape, "item", None) or getattr(shape, "record", None)) is not None:
        yield from iterate_records(inner)


def to_json(value: Any) -> Any:
    """Return a default as a JSON value."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(each) for key, each in value.items()}
    return [to_json(each) for each in value] if isinstance(value, list | tuple) else value


def format_table(heads: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n".replace("||", "\\|\\|") for cells in lines)


def schema_document(schema: Mapping[str, Any]) -> str:
    """Return a JSON Schema as published text, in the dialect of 2020-12."""
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
