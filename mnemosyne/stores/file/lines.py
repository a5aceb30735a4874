"""Lines of a journal: their JSON, their checksum, and the form of a row in them.

The checksum of a line is a CRC-32 of the line and of the journal's place, so that a changed bit is noticed and so is a line
of another journal. It is the last field, `sum`.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mnemosyne.core.codec import JsonText, decode, encode
from mnemosyne.core.errors import CodecError
from mnemosyne.stores.sql.blobs import join_body, split_body

FORMAT = 3
"""Form of a journal of row writes. The journals of formats 1 and 2 hold other rows; `jacquard operate migrate` converts them."""

_FORM = ":form"
_BASE64 = "base64"
_TEXT = "text "
_ESCAPE = b"\\ud"
"""The beginning of half a surrogate pair, which other JSON cannot contain: a body with it is written as text."""
_SUM = re.compile(rb',"sum":([0-9]{1,10})\}\n\Z')


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """First line. `generation` changes whenever the file is rewritten; the `kept` lines after it are a snapshot. `numbers` are the
    last numbers that the tables had drawn then.
    """

    format: int
    tenant: str = ""
    scope: str
    generation: str
    kept: int
    numbers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One write: its number in the file (1-based), its name, and the rows that it changed."""

    n: int
    did: str
    rows: tuple[tuple[str, str, dict[str, JsonText]], ...]
    """Table, change of the row (`put`: all columns, `set`: some columns, `drop`), and its columns, the key first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowChange:
    """One row that was written or removed; `columns` begin with its key."""

    table: str
    did: str
    columns: Mapping[str, Any]


def with_sum(body: bytes, place: str) -> bytes:
    """Return a JSON object as a line of a journal, with its checksum as the last field."""
    number = zlib.crc32(body, zlib.crc32(place.encode("utf-8", "surrogatepass")))
    return body[:-1] + b',"sum":%d}\n' % number


def without_sum(line: bytes, place: str) -> bytes:
    """Return the JSON of a line; CodecError if it has no checksum or one that does not fit."""
    found = _SUM.search(line)
    if found is None:
        raise CodecError("it has no checksum")
    body = line[: found.start()] + b"}"
    if with_sum(body, place) != line:
        raise CodecError("its checksum does not fit")
    return body


def write_line(number: int, name: str, changes: Sequence[RowChange], place: str) -> bytes:
    """Return the line of one write, with its checksum."""
    rows = [(change.table, change.did, _cells(change.columns)) for change in changes]
    return with_sum(encode({"n": number, "did": name, "rows": rows}), place)


def read_line(line: bytes, place: str) -> Line:
    """Return the write of a line; CodecError."""
    return decode(without_sum(line, place), Line)


def read_columns(cells: Mapping[str, JsonText]) -> dict[str, Any]:
    """Return the columns of a row in a line; CodecError."""
    forms = {name.removesuffix(_FORM): name for name in cells if name.endswith(_FORM)}
    return {
        name: _bytes_of(cell, decode(bytes(cells[forms[name]]), str)) if name in forms else decode(bytes(cell), object)
        for name, cell in cells.items()
        if not name.endswith(_FORM)
    }


def _cells(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as JSON: bodies as the JSON that they contain, with a second field for their checksum and compression."""
    cells: dict[str, Any] = {}
    for name, value in columns.items():
        if not isinstance(value, bytes):
            cells[name] = value
            continue
        body, form = split_body(value)
        if body is None:
            body, form = encode(base64.b64encode(value).decode()), _BASE64
        elif _ESCAPE in body:
            body, form = encode(body.decode()), _TEXT + form
        cells[name], cells[name + _FORM] = JsonText(body), form
    return cells


def _bytes_of(cell: JsonText, form: str) -> bytes:
    data = bytes(cell)
    try:
        if form == _BASE64:
            return base64.b64decode(decode(data, str))
        body = decode(data, str).encode() if form.startswith(_TEXT) else data
        return join_body(body, form.removeprefix(_TEXT))
    except ValueError as error:
        raise CodecError(f"a body cannot be read: {error}") from None
