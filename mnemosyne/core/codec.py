"""Encodes values of the schema (dataclasses, Structs, plain trees) as JSON bytes, and decodes them.

Only this module imports msgspec, so the validator can be replaced in one file. Callers pass the types of the values.

- Times: an encoded time is ISO 8601 text. A decoded time is an aware datetime.
- Mappings: an encoded mapping is a JSON object. A decoded mapping may be a read-only proxy.
- Broken text: a text may contain half a surrogate pair, which UTF-8 cannot express. The half is written as a JSON escape, so
  that decoding gives the same text again.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, TypeVar, cast, get_args, get_type_hints

import msgspec
from msgspec import Struct as Struct

from mnemosyne.core.errors import CodecError, UnreadableError

T = TypeVar("T")

replace_struct = msgspec.structs.replace
"""Return a copy of a `Struct` in which the named fields have other values."""

JsonText = msgspec.Raw
"""JSON that is encoded already. `encode` copies it unchanged; `decode` leaves a field of this type as bytes."""


def _plain_mapping(value: Any) -> Any:
    """Convert types that JSON does not know: read-only mappings, and sets (sorted, so that the bytes are the same each
    time).
    """
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


_FIELDS = msgspec.json.Decoder(dict[str, JsonText])


class JsonTree(Mapping[str, Any]):
    """A read-only mapping over the bytes of a JSON object.

    `encode` copies the bytes. Each field is decoded when it is first read.
    """

    def __init__(self, json: bytes) -> None:
        self.json = json
        self._read: dict[str, Any] = {}

    @cached_property
    def _fields(self) -> Mapping[str, Any]:
        """Return the fields, each as JSON; decoded if half a surrogate pair is among them."""
        try:
            return _FIELDS.decode(self.json)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._read = decode(self.json, dict)
            return self._read

    def __getitem__(self, key: str) -> Any:
        field = self._fields[key]
        if key not in self._read:
            self._read[key] = decode(bytes(field), Any)
        return self._read[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return repr(dict(self))


def _json_form(value: Any) -> Any:
    return JsonText(value.json) if isinstance(value, JsonTree) else _plain_mapping(value)


_ENCODER = msgspec.json.Encoder(enc_hook=_json_form)


_BUILDING = threading.RLock()


@lru_cache(maxsize=256)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    # msgspec (0.22) shows other threads its incomplete knowledge of a dataclass, which ends the process.
    with _BUILDING:
        return msgspec.json.Decoder(kind)


def encode(value: Any) -> bytes:
    """Return the JSON of `value`: a schema value or a JSON tree.

    NaN and infinities become null, because JSON cannot express them; `encode_tree` refuses them. Raises CodecError if
    the value has no JSON form.
    """
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _encode_escaped(value)
    except (NotImplementedError, TypeError, msgspec.MsgspecError) as error:
        raise CodecError(f"A {type(value).__name__} cannot be written as JSON: {error}.") from None


def _encode_escaped(value: Any) -> bytes:
    try:
        text = json.dumps(to_plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise CodecError(f"A {type(value).__name__} cannot be written as JSON: {error}.") from None
    return text.encode("ascii")


def decode(data: bytes, kind: type[T]) -> T:
    """Return the value of type `kind` that the JSON `data` contains.

    Raises UnreadableError (a CodecError) if `data` is not JSON or does not fit `kind`.
    """
    try:
        return cast(T, _decoder(cast(Hashable, kind)).decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if b"\\u" not in bytes(data):
            raise _unreadable_error(data, kind, error) from None
    try:
        return msgspec.convert(json.loads(bytes(data)), kind)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise _unreadable_error(data, kind, error) from None


def _unreadable_error(data: bytes, kind: Any, error: Exception) -> UnreadableError:
    name = getattr(kind, "__name__", str(kind))
    return UnreadableError(f"These bytes hold no {name}: {error}.", bytes(data))


def encode_tree(tree: Mapping[str, Any]) -> bytes:
    """Return the JSON of a state tree. Raises CodecError if a number in it is not finite. The message names the number's path."""
    data = encode(tree)
    if b"null" in data and (path := _find_non_finite(tree)) is not None:
        raise CodecError(f"The number at {path or '/'} is not finite; a state holds numbers that JSON can write.")
    return data


def decode_tree(data: bytes) -> dict[str, Any]:
    """Return the JSON object in `data`. Raises UnreadableError if `data` is not a JSON object."""
    return decode(data, dict)


def to_plain(value: Any) -> Any:
    """Return a schema value as dicts, lists, text, numbers and None, the form that JSON and YAML writers take."""
    return msgspec.to_builtins(value, enc_hook=_plain_mapping)


def from_plain(value: Any, kind: type[T], *, is_lax: bool = False) -> T:
    """Return the schema value of type `kind` for plain data (from `to_plain` or from JSON).

    If `is_lax`, a number may also be a text, and a whole number may have a decimal point, because models write such values.
    Raises CodecError if the data does not fit `kind`. The message names the place.
    """
    _decoder(cast(Hashable, kind))
    try:
        return msgspec.convert(value, kind, strict=not is_lax)
    except msgspec.ValidationError as error:
        raise CodecError(f"This is not a {kind.__name__}: {error}.") from None
    except UnicodeEncodeError:
        raise CodecError(f"This is not a {kind.__name__}: a text in it holds half of a surrogate pair.") from None


@lru_cache(maxsize=256)
def find_defaults(kind: type[Any]) -> Mapping[str, Any]:
    """Return the default of each field of a dataclass or `Struct`.

    For a field that has no default the mapping contains a new object, which is equal to no value.
    """
    if issubclass(kind, Struct):
        return {each.name: _default(each.default, each.default_factory) for each in msgspec.structs.fields(kind)}
    return {each.name: _default(each.default, each.default_factory) for each in fields(kind)}


def _default(value: Any, make: Any) -> Any:
    if value not in (MISSING, msgspec.NODEFAULT):
        return value
    return object() if make in (MISSING, msgspec.NODEFAULT) else make()


def json_schemas(kinds: Sequence[Any], place: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return (schemas, components) as JSON Schemas (2020-12): `schemas` for the types `kinds`, in their order, and `components`
    by name for the types to which `kinds` refer.

    `place` is the form of a reference to a component, with `{name}` in it: `#/components/schemas/{name}`.
    """
    schemas, named = msgspec.json.schema_components(kinds, ref_template=place)
    for kind in _dataclasses_in(kinds):
        properties = named.get(kind.__name__, {}).get("properties", {})
        for name, hint in get_type_hints(kind).items():
            if name in properties and (hint is datetime or datetime in get_args(hint)):
                # msgspec names the format only for times that require a zone by their type.
                for each in (properties[name], *properties[name].get("anyOf", ())):
                    if each.get("type") == "string":
                        each["format"] = "date-time"
    return list(schemas), named


def _dataclasses_in(kinds: Sequence[Any]) -> set[type]:
    found: set[type] = set()
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        waiting.extend(get_args(kind))
        if isinstance(kind, type) and is_dataclass(kind) and kind not in found:
            found.add(kind)
            waiting.extend(get_type_hints(kind).values())
    return found


def format_time(at: datetime) -> str:
    """Return an aware datetime as ISO 8601 text. Raises CodecError if `at` has no time zone, because its hour is ambiguous."""
    if at.tzinfo is None:
        raise CodecError(f"{at.isoformat()} has no time zone; give an aware datetime.")
    return at.isoformat()


def check_times(*times: datetime | None) -> None:
    """Raise CodecError if one of `times` has no time zone. None is accepted."""
    for at in times:
        if at is not None:
            format_time(at)


def parse_time(text: str) -> datetime:
    """Return ISO 8601 text as an aware datetime.

    Raises UnreadableError if the text is not an ISO 8601 time, or has no time zone.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UnreadableError(
            f"{text!r} is not an ISO 8601 time; write one, as in 2026-01-31T12:00:00+00:00."
        ) from None
    if at.tzinfo is None:
        raise UnreadableError(f"{text!r} has no time zone; write one, as in 2026-01-31T12:00:00+00:00.")
    return at


def _find_non_finite(tree: Any) -> str | None:
    """Return the JSON Pointer of a NaN or an infinity in `tree`, or None."""
    waiting: list[tuple[str, Any]] = [("", tree)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, float):
            if not math.isfinite(node):
                return path
        elif isinstance(node, Mapping):
            waiting.extend((f"{path}/{key}", child) for key, child in node.items() if not isinstance(child, str))
        elif isinstance(node, list | tuple):
            waiting.extend((f"{path}/{at}", child) for at, child in enumerate(node) if not isinstance(child, str))
    return None
