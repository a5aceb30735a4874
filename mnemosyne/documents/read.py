"""Converts JSON to values and values to JSON, by the tables of `shapes`. Pure; it works for any document.

A value has one canonical spelling. Where the JSON spells it differently (a default that is written out, another time
zone notation, `success|error` for an open choice), that spelling is kept in `extra` under the field's own name. It is
written back as long as it still reads as the value; a value that has changed is written canonically.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from mnemosyne.documents.faults import Fault, Severity, child
from mnemosyne.documents.shapes import FieldShape, Form, Kind, choices, shape_of
from mnemosyne.schema.evidence import Evidence, trust_in_document
from mnemosyne.schema.memory import EMPTY

_BAD = object()
_NAMES: dict[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


@dataclass(kw_only=True, slots=True)
class Notes:
    """Findings while reading: faults, and the paths of unknown fields (in types that are not open)."""

    faults: list[Fault] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)

    def error(self, path: str, code: str, what: str) -> Any:
        """Record an error and return the marker of a value that could not be read."""
        self.faults.append(Fault(path=path, what=what, code=code))
        return _BAD

    def warn(self, path: str, code: str, what: str) -> None:
        """Record a warning."""
        self.faults.append(Fault(path=path, what=what, code=code, severity=Severity.WARNING))


def read_object(cls: type, raw: Any, path: str, notes: Notes) -> Any:
    """Return `raw` as a value of `cls`; the result is meaningless if `notes` holds an error afterwards."""
    shape = shape_of(cls)
    if not isinstance(raw, dict):
        return notes.error(path, "kind", f"is {json_kind_name(raw)}, not an object")
    values: dict[str, Any] = {}
    for each in shape.fields:
        if each.json not in raw:
            if each.required:
                notes.error(child(path, each.json), "missing", "is missing; add it")
                values[each.name] = _BAD
            continue
        raw_value = raw[each.json]
        value = read_value(each.kind, raw_value, child(path, each.json), notes, default=each.default)
        values[each.name] = value
    if any(value is _BAD for value in values.values()):
        return _BAD
    if cls is Evidence and "trust" not in raw:
        values["trust"] = trust_in_document(values["source"], values["type"])
    known = {each.json for each in shape.fields}
    unknown = {name: copy_tree(raw_value) for name, raw_value in raw.items() if name not in known}
    if not shape.open:
        notes.ignored += [child(path, name) for name in unknown]
        return cls(**values)
    made = cls(**values)
    kept = {
        each.json: copy_tree(raw[each.json])
        for each in shape.fields
        if each.json in raw and _is_spelled_otherwise(each, raw[each.json], made)
    }
    return replace(made, extra={**kept, **unknown}) if kept or unknown else made


def read_value(kind: Kind, raw: Any, path: str, notes: Notes, default: Any = None) -> Any:
    """Return `raw` as a value of this kind; `default` is the value of null where null is allowed."""
    if raw is None and kind.nullable:
        return default
    if kind.form is Form.OBJECT:
        return read_object(kind.of, raw, path, notes)
    if kind.form is Form.MANY:
        return _read_many(kind, raw, path, notes)
    if kind.form is Form.KEYED:
        return _read_keyed(kind, raw, path, notes)
    return _LEAVES[kind.form](kind, raw, path, notes)


def write_object(value: Any, *, whole: bool = False) -> dict[str, Any]:
    """Return a value as a JSON object; `whole` writes even those of its own fields that have their default."""
    shape = shape_of(type(value))
    extra: Mapping[str, Any] = value.extra if shape.open else EMPTY
    made: dict[str, Any] = {}
    for each in shape.fields:
        own = getattr(value, each.name)
        if each.json in extra and _reads_as(each, extra[each.json], own):
            made[each.json] = copy_tree(extra[each.json])
        elif each.required or own != _default_of(each, value) or (whole and own is not None):
            made[each.json] = write_value(each.kind, own)
    known = {each.json for each in shape.fields}
    made.update((name, copy_tree(raw_value)) for name, raw_value in extra.items() if name not in known)
    return made


def write_value(kind: Kind, value: Any) -> Any:
    """Return a value of this kind as JSON."""
    if value is None:
        return None
    if kind.form is Form.OBJECT:
        return write_object(value)
    if kind.form is Form.MANY and kind.item is not None:
        return [write_value(kind.item, each) for each in value]
    if kind.form is Form.KEYED and kind.item is not None:
        return {key: write_value(kind.item, each) for key, each in value.items()}
    if kind.form is Form.TREE:
        return copy_tree(value)
    if kind.form is Form.TIME:
        return time_json(value)
    return value.value if kind.form is Form.CHOICE else value


def time_json(at: datetime) -> str:
    """Return a time as ISO 8601 text, UTC as `Z`; ValueError for a naive one, whose hour is ambiguous."""
    offset = at.utcoffset()
    if offset is None:
        raise ValueError(f"{at.isoformat()} has no time zone; give an aware datetime")
    text = at.isoformat()
    return text.removesuffix("+00:00") + "Z" if offset == timedelta() else text


def copy_tree(tree: Any) -> Any:
    """Return a copy of a JSON tree that shares no mutable part with it."""
    if isinstance(tree, Mapping):
        return {key: copy_tree(each) for key, each in tree.items()}
    if isinstance(tree, list | tuple):
        return [copy_tree(each) for each in tree]
    return tree


def json_kind_name(value: Any) -> str:
    """Return the kind of a JSON value in words (`a list`, `text`)."""
    return _NAMES.get(type(value), f"a {type(value).__name__}")


def _default_of(each: FieldShape, owner: Any) -> Any:
    if each.name == "trust" and isinstance(owner, Evidence):
        return trust_in_document(owner.source, owner.type)
    return each.default


def _is_spelled_otherwise(each: FieldShape, raw_value: Any, owner: Any) -> bool:
    """Return whether writing the field of `owner` would give other JSON than `raw_value`; nested objects keep their own
    spellings.
    """
    value = getattr(owner, each.name)
    if raw_value is None or (not each.required and value == _default_of(each, owner)):
        return True
    inner = each.kind.item or each.kind
    if inner.form in (Form.OBJECT, Form.TREE):
        return False
    written: Any = write_value(each.kind, value)
    return type(written) is not type(raw_value) or bool(written != raw_value)


def _reads_as(each: FieldShape, raw_value: Any, value: Any) -> bool:
    """Return whether a kept spelling still means `value`."""
    read = read_value(each.kind, raw_value, "", Notes(), default=each.default)
    return read is not _BAD and bool(read == value)


def _read_many(kind: Kind, raw: Any, path: str, notes: Notes) -> Any:
    if not isinstance(raw, list):
        return notes.error(path, "kind", f"is {json_kind_name(raw)}, not a list")
    if kind.filled and not raw:
        return notes.error(path, "empty", "is empty; it must hold at least one")
    item = kind.item
    assert item is not None
    made = [read_value(item, each, child(path, at), notes) for at, each in enumerate(raw)]
    return _BAD if any(each is _BAD for each in made) else tuple(made)


def _read_keyed(kind: Kind, raw: Any, path: str, notes: Notes) -> Any:
    if not isinstance(raw, dict):
        return notes.error(path, "kind", f"is {json_kind_name(raw)}, not an object")
    item = kind.item
    assert item is not None
    made = {key: read_value(item, each, child(path, key), notes) for key, each in raw.items()}
    return _BAD if any(each is _BAD for each in made.values()) else made


def _read_text(kind: Kind, raw: Any, path: str, notes: Notes) -> Any:
    if not isinstance(raw, str):
        return notes.error(path, "kind", f"is {json_kind_name(raw)}, not text; write it in quotes")
    if kind.filled and not raw:
        return notes.error(path, "empty", "is empty; it must name something")
    return raw


def _read_number(kind: Kind, raw: Any, path: str, notes: Notes) -> Any:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not math.isfinite(raw):
        return notes.error(path, "kind", f"is {json_kind_name(raw)}, not a number")
    if kind.form is Form.WHOLE and raw != int(raw):
        return notes.error(path, "kind", f"is {raw!r}, not a whole number; round it")
    if kind.minimum is not None and raw < kind.minimum:
        return notes.error(path, "value", f"is {raw!r}, less than {kind.minimum:g}")
    if kind.maximum is not None and raw > kind.maximum:
        return notes.error(path, "value", f"is {raw!r}, more than {kind.maximum:g}")
    return int(raw) if kind.form is Form.WHOLE else float(raw)


def _read_flag(kind: Kind, raw: Any, path: str, notes: Notes) -> Any:
    return raw if isinstance(raw, bool) else notes.error(path, "kind", f"is {json_kind_name(raw)}, not true or false")


def _read_time(kind: Kind, raw: Any, path: str, notes: Notes) -> Any:
    if not isinstance(raw, str):
        return notes.error(path, "kind", f"is {json_kind_name(raw)}, not a time; write ISO 8601 text")
    try:
        at = datetime.fromisoformat(raw)
    except ValueError:
        notes.warn(path, "placeholder", f"{raw!r} is not an ISO 8601 time; it is kept as it is and read as unknown")
        return None if kind.nullable else _refuse_time(path, notes)
    if at.utcoffset() is None:
        notes.warn(path, "placeholder", f"{raw!r} has no time zone; it is kept as it is and read as unknown")
        return None if kind.nullable else _refuse_time(path, notes)
    return at


def _refuse_time(path: str, notes: Notes) -> Any:
    return notes.error(path, "value", "must be a time, as in 2026-01-31T12:00:00Z")


def _read_choice(kind: Kind, raw: Any, path: str, notes: Notes) -> Any:
    words = choices(kind)
    if not isinstance(raw, str):
        return notes.error(path, "kind", f"is {json_kind_name(raw)}, not one of {', '.join(words)}")
    if raw in words:
        return kind.of(raw)
    if raw in kind.aliases:
        notes.warn(path, "alias", f"{raw!r} is read as {kind.aliases[raw]}")
        return kind.of(kind.aliases[raw])
    parts = raw.split("|")
    if len(parts) > 1 and all(part in words for part in parts):
        notes.warn(path, "placeholder", f"{raw!r} is an open choice; it is kept and read as {parts[0]}")
        return kind.of(parts[0])
    return notes.error(path, "value", f"{raw!r} is none of {', '.join(words)}")


def _read_tree(kind: Kind, raw: Any, path: str, notes: Notes) -> Any:
    return copy_tree(raw)


_LEAVES: dict[Form, Callable[[Kind, Any, str, Notes], Any]] = {
    Form.TEXT: _read_text,
    Form.WHOLE: _read_number,
    Form.NUMBER: _read_number,
    Form.FLAG: _read_flag,
    Form.TIME: _read_time,
    Form.CHOICE: _read_choice,
    Form.TREE: _read_tree,
}
