"""Converts session documents and context packages between JSON and their dataclasses.

The tables for this are made from the dataclasses of `mnemosyne.schema`: names, types and defaults of the fields. The few
rules that a type cannot express are given here, by the name of the field.

Every value has one canonical spelling in JSON. A document may spell a value differently: it may write out a default, use
another notation of a time zone, or write `success|error` for an open choice. Such a spelling is kept in `extra` under the
name of the field, and is written again as long as the value has not changed. A changed value is written in its canonical
spelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, replace
from dataclasses import Field as ClassField
from datetime import datetime, timedelta
from enum import StrEnum
from functools import reduce
from typing import Any

from mnemosyne.core.errors import SchemaValidationError
from mnemosyne.core.faults import Fault, Severity, SourceLocation, Wording, child, did_you_mean, kind_name
from mnemosyne.core.plain_values import Path as KeyPath
from mnemosyne.schema.document import Session, SessionDocument, TaskState, TodoList
from mnemosyne.schema.evidence import Evidence, trust_in_document
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.package import ContextPackage
from mnemosyne.schema.session import Message, Role
from mnemosyne.shapes import (
    BROKEN,
    Anything,
    Choice,
    Definitions,
    Field,
    KeyedValues,
    Many,
    Reading,
    Record,
    Rules,
    Shape,
    Trouble,
    TypeTables,
)
from mnemosyne.values import dataclass

ROLE_ALIASES = {"developer": "system", "function": "tool", "human": "user", "ai": "assistant"}
"""Roles of other frameworks, with the role that each is read as. The schema allows further roles if they can be mapped."""

_JSON_NAMES = {"from_index": "from", "to_index": "to"}
_ALWAYS = {
    (ContextPackage, "version"),
    (SessionDocument, "schema_version"),
    (SessionDocument, "evidences"),
    (SessionDocument, "context_blocks"),
    (Session, "messages"),
    (Session, "task_state"),
    (TaskState, "todo_list"),
    (TodoList, "tasks"),
}
_OF_THE_STORE = {(SessionDocument, "version")}
"""Fields that describe a stored document and are not written into its JSON."""
_FILLED = {(Session, "messages")}
_NULLABLE = {(Message, "refs")}
_BOUNDS: dict[tuple[type, str], tuple[float | None, float | None]] = {(Evidence, "confidence"): (0, 1)}
_FREE_NUMBERS = frozenset({"score", "signals"})
_KINDS = {dict: "an object", type(None): "null"}


class DocumentWording(Wording):
    """Sentences for the faults of a document, in the terms of JSON."""

    def wrong_kind(self, value: Any, wanted: str) -> str:
        name = json_kind_name(value)
        if wanted == "a whole number":
            return f"is {value!r}, not {wanted}; round it" if isinstance(value, float) else f"is {name}, not a number"
        hint = {"text": "; write it in quotes", "a time": "; write ISO 8601 text"}.get(wanted, "")
        return f"is {name}, not {wanted.replace('a mapping', 'an object')}{hint}"

    def outside(self, value: float, low: float | None, high: float | None) -> str:
        shown = f"{value:g}" if isinstance(value, float) else value
        return f"is {shown}, {f'less than {low:g}' if low is not None and value < low else f'more than {high:g}'}"

    def no_choice(self, value: str, words: tuple[str, ...]) -> str:
        return f"{value!r} is none of {', '.join(words)}"

    def missing(self, name: str, doc: str, unknown: tuple[str, ...]) -> str:
        near = did_you_mean(name, unknown).replace("did you mean", "is it written as")
        return f"is missing; add it{near}"

    def empty(self) -> str:
        return "is empty; it must name something"

    def too_few(self, count: int, least: int) -> str:
        return "is empty; it must hold at least one"


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentLocation(SourceLocation):
    """A place in a document, for faults."""

    @property
    def key(self) -> str:
        """Path of the place. A key that is not a word is in brackets: `evidences["a.b"].confidence`."""
        return shown_path(self.path)


def shown_path(steps: Iterable[str | int]) -> str:
    """Return the steps of a path in a document as one text for people."""
    return reduce(child, steps, "")


def open_reading() -> Reading:
    """Return the object that collects the faults while a document is read. The values of the document must have been checked
    before: all are plain (can be stored).
    """
    return Reading(root=DocumentLocation(), wording=DocumentWording(), is_plain=True)


def raise_errors(faults: Iterable[Fault]) -> None:
    """Raise SchemaValidationError with all faults that are errors, if there are any."""
    errors = tuple(str(fault) for fault in faults if fault.severity is Severity.ERROR)
    if errors:
        raise SchemaValidationError(errors)


def json_kind_name(value: Any) -> str:
    """Return the type of a JSON value in words (`a list`, `text`)."""
    return _KINDS.get(type(value)) or kind_name(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Time(Shape):
    """A time as ISO 8601 text. Any other text is read as None (unknown), and the text is kept."""

    def read(self, value: Any, path: KeyPath, reading: Reading) -> Any:
        if not isinstance(value, str):
            return reading.refuse(path, reading.wording.wrong_kind(value, "a time"), "kind")
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            reading.warn(
                path, f"{value!r} is not an ISO 8601 time; it is kept as it is and read as unknown", "placeholder"
            )
            return None
        if at.utcoffset() is None:
            reading.warn(path, f"{value!r} has no time zone; it is kept as it is and read as unknown", "placeholder")
            return None
        return at

    def schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        return {"type": "string", "format": "date-time"}

    def describe(self) -> str:
        return "time"

    def control(self) -> dict[str, Any]:
        return {"control": "datetime"}


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenChoice(Choice):
    """A member of an enum, written as its word or as one of `aliases`. If a document writes alternatives (`success|error`),
    the first is read.
    """

    of: type[StrEnum]
    aliases: Mapping[str, str]

    def find_fault(self, value: Any, wording: Wording) -> Trouble | None:
        if isinstance(value, str) and (value in self.aliases or self._is_open(value)):
            return None
        return super(OpenChoice, self).find_fault(value, wording)

    def read(self, value: Any, path: KeyPath, reading: Reading) -> Any:
        word = super(OpenChoice, self).read(value, path, reading)
        if word is BROKEN:
            return word
        if word in self.aliases:
            word = self.aliases[value]
            reading.warn(path, f"{value!r} is read as {word}", "alias")
        elif word not in self.words:
            word = word.split("|")[0]
            reading.warn(path, f"{value!r} is an open choice; it is kept and read as {word}", "placeholder")
        return self.of(word)

    def schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        one = f"(?:{'|'.join(self.words)})"
        made: list[dict[str, Any]] = [{"enum": list(self.words)}]
        if self.aliases:
            made.append({"enum": list(self.aliases), "description": "Words of other frameworks, read as one of these."})
        made.append({"pattern": rf"^{one}(?:\|{one})+$", "description": "Alternatives, not yet chosen."})
        return {"type": "string", "anyOf": made}

    def _is_open(self, value: str) -> bool:
        parts = value.split("|")
        return len(parts) > 1 and all(part in self.words for part in parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonTree(Anything):
    """Any JSON value. Reading returns a copy of it."""

    def read(self, value: Any, path: KeyPath, reading: Reading) -> Any:
        return copy_tree(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentRecord(Record):
    """An object of a document. Unknown keys are not faults. If the class has a field `extra`, they are kept in it; otherwise
    they are ignored.
    """

    @property
    def is_open(self) -> bool:
        """Whether unknown keys and unusual spellings are kept."""
        assert self.of is not None
        return any(each.name == "extra" for each in fields(self.of))

    def pass_unknown(self, unknown: tuple[Any, ...], value: Mapping[Any, Any], path: KeyPath, reading: Reading) -> None:
        pass

    def build(self, made: dict[str, Any], value: Mapping[Any, Any], path: KeyPath, reading: Reading) -> Any:
        for each in self.fields:
            if made[each.name] is None and isinstance(each.shape, Time) and not each.takes_null:
                what = "must be a time, as in 2026-01-31T12:00:00Z"
                made[each.name] = reading.refuse((*path, each.name), what)
        if any(item is BROKEN for item in made.values()):
            return BROKEN
        values = {each.attribute: made[each.name] for each in self.fields if each.name in value}
        if self.of is Evidence and "trust" not in value:
            values["trust"] = trust_in_document(values["source"], values["type"])
        assert self.of is not None
        built = self.of(**values)
        unknown = {name: copy_tree(item) for name, item in value.items() if name not in made}
        if not self.is_open:
            reading.ignored += [shown_path((*path, name)) for name in unknown]
            return built
        kept = {
            each.name: copy_tree(value[each.name])
            for each in self.fields
            if each.name in value and _is_spelled_otherwise(each, value[each.name], built)
        }
        return replace(built, extra={**kept, **unknown}) if kept or unknown else built

    def object_schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        made = super(DocumentRecord, self).object_schema(defs)
        del made["additionalProperties"]
        if self.of is Evidence:  # its default depends on its source
            del made["properties"]["trust"]["default"]
        return made


def record_of(cls: type) -> Record:
    """Return the table (names, shapes and defaults of the fields) of a dataclass of the schema."""
    return _TABLES.record_of(cls)


def read_object(cls: type, raw: Any, reading: Reading) -> Any:
    """Return the JSON object `raw` as a value of `cls`. Faults are added to `reading`; if one is an error, ignore the result."""
    return record_of(cls).read(raw, (), reading)


def write_object(value: Any, *, whole: bool = False) -> dict[str, Any]:
    """Return `value` as a JSON object. If `whole`, fields that have their default are written, too, except if it is None."""
    table = record_of(type(value))
    extra: Mapping[str, Any] = getattr(value, "extra", EMPTY)
    made: dict[str, Any] = {}
    for each in table.fields:
        own = getattr(value, each.attribute)
        if each.name in extra and _reads_as(each, extra[each.name], own):
            made[each.name] = copy_tree(extra[each.name])
        elif each.required or own != _default_of(each, value) or (whole and own is not None):
            made[each.name] = _write_value(each.shape, own)
    known = {each.name for each in table.fields}
    made.update((name, copy_tree(raw)) for name, raw in extra.items() if name not in known)
    return made


def copy_tree(tree: Any) -> Any:
    """Return a copy of a JSON value that shares no mutable part with it."""
    if isinstance(tree, Mapping):
        return {key: copy_tree(each) for key, each in tree.items()}
    if isinstance(tree, list | tuple):
        return [copy_tree(each) for each in tree]
    return tree


def _write_value(shape: Shape, value: Any) -> Any:
    """Return a value of this shape as JSON."""
    if value is None:
        return None
    match shape:
        case Record():
            return write_object(value)
        case Many():
            return [_write_value(shape.item, each) for each in value]
        case KeyedValues():
            return {key: _write_value(shape.item, each) for key, each in value.items()}
        case JsonTree():
            return copy_tree(value)
        case Time():
            return _write_time(value)
        case _:
            return value.value if isinstance(value, StrEnum) else value


def _write_time(at: datetime | str) -> str:
    """Return a time as ISO 8601 text, with `Z` for UTC. A program may give a text. Raises ValueError if it is not a time, or
    has no time zone.
    """
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError:
            raise ValueError(f"{at!r} is not an ISO 8601 time; write one, as 2026-01-31T08:30:00+00:00") from None
    offset = at.utcoffset()
    if offset is None:
        raise ValueError(f"{at.isoformat()} has no time zone; give an aware datetime")
    text = at.isoformat()
    return text.removesuffix("+00:00") + "Z" if offset == timedelta() else text


def _default_of(each: Field, owner: Any) -> Any:
    if each.name == "trust" and isinstance(owner, Evidence):
        return trust_in_document(owner.source, owner.type)
    return each.fallback


def _is_spelled_otherwise(each: Field, raw: Any, owner: Any) -> bool:
    """Return whether writing the field of `owner` would give different JSON than `raw`.

    The result is False for nested objects, because they keep their own spellings.
    """
    value = getattr(owner, each.attribute)
    if raw is None or (not each.required and value == _default_of(each, owner)):
        return True
    if isinstance(getattr(each.shape, "item", each.shape), Record | JsonTree):
        return False
    written: Any = _write_value(each.shape, value)
    return type(written) is not type(raw) or bool(written != raw)


def _reads_as(each: Field, raw: Any, value: Any) -> bool:
    """Return whether the kept spelling `raw` still has the meaning of `value`."""
    if raw is None and each.takes_null:
        return bool(value == each.fallback)
    read = each.shape.read(raw, (), open_reading())
    return read is not BROKEN and bool(read == value)


def _rules(cls: type, each: ClassField[Any]) -> Rules | None:
    place = (cls, each.name)
    if each.name == "extra" or place in _OF_THE_STORE:
        return None
    is_required = each.default is MISSING and each.default_factory is MISSING
    low, high = _BOUNDS.get(place, (None if each.name in _FREE_NUMBERS else 0, None))
    return {
        "name": _JSON_NAMES.get(each.name, each.name),
        "low": low,
        "high": high,
        "filled": place in _FILLED or (is_required and each.name.endswith("_id")),
        "required": place in _ALWAYS,
        "nullable": place in _NULLABLE,
    }


def _choice(of: type[StrEnum]) -> Shape:
    aliases = ROLE_ALIASES if of is Role else EMPTY
    return OpenChoice(words=tuple(member.value for member in of), of=of, aliases=aliases)


_TABLES = TypeTables(
    rules=_rules, record=DocumentRecord, choice=_choice, shapes={Any: JsonTree(), datetime: Time()}, made={}
)
