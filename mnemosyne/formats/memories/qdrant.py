"""Reads local folders of Qdrant (the default store of mem0) for import, without the package of Qdrant. A folder stores
points, and each point has a payload: the fields of one memory. The payloads are returned.

A point is stored as a pickle. Loading a pickle can run any code of its author, so no pickle is loaded. Instead this module
interprets the instructions of the pickle. Only instructions that build texts, numbers, lists, mappings and plain objects
are allowed, and an object becomes the mapping of its fields. A pickle that calls a function is refused. Nothing is
imported and no class is created.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.core.plain_values import complete_characters, plain_faults
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.memories.databases import open_database

MOST_PICKLE_BYTES = 16_000_000
_MARK = object()
_VALUES = frozenset(
    {
        "BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "UNICODE", "SHORT_BINUNICODE",
        "BINUNICODE", "BINUNICODE8",
    }
)  # fmt: skip
"""Pickle instructions that push their argument."""
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": list,
}
_GETS = frozenset({"BINGET", "LONG_BINGET", "GET"})
_MOST_REPEATED = 8
_NOTHING = frozenset({"PROTO", "FRAME"})


class _Class:
    """A class that a pickle names. The class is never looked up."""


def read_plain_pickle(data: bytes) -> Any:
    """Return the value of the pickle `data` as plain data that can be stored. Tuples and sets become lists. An object
    becomes the mapping of its fields, without the field `vector`.

    Raises ValueError if the pickle is damaged, has more than MOST_PICKLE_BYTES bytes, or calls a function. Raises
    ValueError also if the result contains values that are not plain data, or if the pickle uses values that it has
    stored before so often that the result would be more than eight times as large as the pickle.
    """
    if len(data) > MOST_PICKLE_BYTES:
        raise ValueError(f"has more than {MOST_PICKLE_BYTES:,} bytes")
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    repeated = 0
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                break
            _step(opcode.name, argument, stack, memo)
            if opcode.name in _GETS:
                repeated += _size_of(stack[-1])
                if repeated > _MOST_REPEATED * len(data):
                    raise ValueError("repeats its values too often")
        value = stack.pop()
    except (IndexError, KeyError, TypeError, AttributeError, UnicodeError, OverflowError) as error:
        raise ValueError(f"is damaged ({error})") from error
    fields = value.get("__dict__", value) if isinstance(value, dict) else value
    if isinstance(fields, dict):
        fields = {name: each for name, each in fields.items() if name != "vector"}
    fields = complete_characters(fields)
    for path, reason in plain_faults(fields):
        raise ValueError(f"{'.'.join(map(str, path))} {reason}")
    return fields


def _step(name: str, argument: Any, stack: list[Any], memo: dict[int, Any]) -> None:
    """Carry out one instruction of a pickle. Raises ValueError if the instruction does not build data."""
    if name in _VALUES:
        stack.append(argument)
    elif name in _CONSTANTS:
        stack.append(_CONSTANTS[name]())
    elif name == "MARK":
        stack.append(_MARK)
    elif name == "MEMOIZE":
        memo[len(memo)] = stack[-1]
    elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
        memo[argument] = stack[-1]
    elif name in _GETS:
        stack.append(memo[argument])
    elif name in ("STACK_GLOBAL", "GLOBAL"):
        if name == "STACK_GLOBAL":
            del stack[-2:]
        stack.append(_Class())
    elif name == "NEWOBJ":
        _expect(stack.pop(), list)
        _expect(stack.pop(), _Class)
        stack.append({})
    elif name == "BUILD":
        state = stack.pop()
        _expect(stack[-1], dict)
        stack[-1].update(state)
    elif name not in _NOTHING:
        _gather(name, stack)


def _gather(name: str, stack: list[Any]) -> None:
    """Carry out an instruction that puts values into a collection."""
    if name == "APPEND":
        item = stack.pop()
        _expect(stack[-1], list).append(item)
    elif name == "SETITEM":
        item, key = stack.pop(), stack.pop()
        _expect(stack[-1], dict)[key] = item
    elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
        count = int(name[-1])
        items = stack[-count:]
        del stack[-count:]
        stack.append(items)
    elif name in ("APPENDS", "ADDITEMS"):
        items = _since_mark(stack)
        _expect(stack[-1], list).extend(items)
    elif name == "SETITEMS":
        items = _since_mark(stack)
        _expect(stack[-1], dict).update(zip(items[::2], items[1::2], strict=True))
    elif name in ("TUPLE", "LIST", "FROZENSET"):
        stack.append(_since_mark(stack))
    elif name == "DICT":
        items = _since_mark(stack)
        stack.append(dict(zip(items[::2], items[1::2], strict=True)))
    else:
        raise ValueError(f"does {name}, which builds no data")


def _size_of(value: Any) -> int:
    """Return the size of a value that a pickle repeats. Raises ValueError for a collection, because it may contain itself."""
    if isinstance(value, list | dict):
        raise ValueError("has a collection in two places")
    return len(value) if isinstance(value, str) else 8


def _since_mark(stack: list[Any]) -> list[Any]:
    items = []
    while (item := stack.pop()) is not _MARK:
        items.append(item)
    items.reverse()
    return items


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError("is damaged (an instruction has values of another type)")
    return value


COLLECTIONS = "collection"
_POINTS = "points"
_FILE = "storage.sqlite"
_MOST_COLLECTIONS = 1000
_MIGRATIONS = "mem0migrations"
_HOW_TO_EXPORT = "write get_all() of mem0 as JSON, and import that file"


def is_qdrant_folder(folder: Path) -> bool:
    """Return whether a folder is a local store of Qdrant."""
    return (folder / "meta.json").is_file() and (folder / COLLECTIONS).is_dir()


def read_points(folder: Path, counter: FieldCounter, notes: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the points of all collections in a folder, in order. Each point is a mapping with `id` and `payload`.

    `counter` counts the vectors, which are not imported, and the points that cannot be read. These points are skipped, and
    one sentence about all of them is added to `notes`. Raises CorpusError if a database is damaged or `folder` cannot be
    listed.
    """
    unread = 0
    for file in _databases(folder, notes):
        with open_database(file) as database:
            if _POINTS not in database.tables:
                continue
            for row in database.rows(_POINTS, ("point",)):
                point = _point_of(row.get("point"))
                if point is None:
                    unread += 1
                    counter.refuse("points.*", note="cannot be read; passed by")
                    continue
                counter.refuse("points.*.vector", note="vectors are made again")
                yield point
    if unread:
        notes.append(f"{unread:,} points of {folder.name} could not be read: {_HOW_TO_EXPORT}.")


def _databases(folder: Path, notes: list[str]) -> Iterator[Path]:
    collections = folder / COLLECTIONS
    try:
        names = sorted(each.name for each in collections.iterdir() if not each.is_symlink())
    except OSError as error:
        raise CorpusError(f"{collections}: cannot be read ({error.strerror or error}).") from error
    for name in names[:_MOST_COLLECTIONS]:
        file = collections / name / _FILE
        if name != _MIGRATIONS and file.is_file() and not file.is_symlink():
            yield file
    if len(names) > _MOST_COLLECTIONS:
        notes.append(f"{folder.name} has {len(names):,} collections; the first {_MOST_COLLECTIONS:,} were read.")


def _point_of(data: Any) -> dict[str, Any] | None:
    """Return `id` and `payload` of a stored point, or None if the data is not a point."""
    if not isinstance(data, bytes):
        return None
    try:
        value = read_plain_pickle(data)
    except ValueError:
        return None
    fields = value.get("__dict__", value) if isinstance(value, Mapping) else None
    if not isinstance(fields, Mapping) or not isinstance(fields.get("payload"), Mapping):
        return None
    point_id = fields.get("id")
    return {"id": point_id if isinstance(point_id, str | int) else "", "payload": fields["payload"]}
