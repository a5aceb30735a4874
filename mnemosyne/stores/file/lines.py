"""Encodes and decodes the lines of a journal, as JSON with a checksum. A journal is a file with the writes of one session or
one world.

The checksum is a CRC-32 of the line and of the journal's place (its tenant and its session or world). So a changed bit
is noticed, and also a line that was copied from another journal. The checksum is the last field, `sum`.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from mnemosyne.core.codec import JsonText, decode, encode
from mnemosyne.core.errors import CodecError
from mnemosyne.stores.sql.blobs import join_body, split_body
from mnemosyne.values import dataclass

FORMAT = 3
"""Current format of a journal. Journals of formats 1 and 2 contain other rows; `jacquard operate migrate` converts them."""

_FORM = ":form"
_BASE64 = "base64"
_TEXT = "text "
_ESCAPE = b"\\ud"
"""Beginning of half a surrogate pair, which other JSON cannot contain. A body that contains it is written as text."""
_SUM = re.compile(rb',"sum":([0-9]{1,10})\}\n\Z')


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """First line of a journal.

    `generation` changes whenever the file is rewritten. The next `kept` lines after the header contain all rows that existed
    when the file was rewritten. `numbers` has, for each table, the last number that it had given to a row by then.
    """

    format: int
    tenant: str = ""
    scope: str
    generation: str
    kept: int
    numbers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One write: its number in the file (1-based), its name (`did`), and the rows that it changed."""

    n: int
    did: str
    rows: tuple[tuple[str, str, dict[str, JsonText]], ...]
    """Each row is (table, change, columns). The change is `put` (all columns), `set` (some columns) or `drop`. The key
    columns come first.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class RowChange:
    """One row that was written or removed. `did` is the change (`put`, `set`, `drop`); `columns` begin with the key."""

    table: str
    did: str
    columns: Mapping[str, Any]


def with_sum(body: bytes, place: str) -> bytes:
    """Return the JSON object `body` as a line of a journal, with its checksum. `place` is the journal's place."""
    number = zlib.crc32(body, zlib.crc32(place.encode("utf-8", "surrogatepass")))
    return body[:-1] + b',"sum":%d}\n' % number


def without_sum(line: bytes, place: str) -> bytes:
    """Return the JSON of a line, after its checksum was compared.

    Raises CodecError if the line has no checksum, or its checksum does not fit.
    """
    found = _SUM.search(line)
    if found is None:
        raise CodecError("it has no checksum")
    body = line[: found.start()] + b"}"
    if with_sum(body, place) != line:
        raise CodecError("its checksum does not fit")
    return body


def write_line(number: int, name: str, changes: Sequence[RowChange], place: str) -> bytes:
    """Return the line of the write with `number` and `name`, with a checksum. `changes` are the rows that were changed."""
    rows = [(change.table, change.did, _cells(change.columns)) for change in changes]
    return with_sum(encode({"n": number, "did": name, "rows": rows}), place)


def read_line(line: bytes, place: str) -> Line:
    """Return the write that a line contains. Raises CodecError if the line is damaged."""
    return decode(without_sum(line, place), Line)


def read_columns(cells: Mapping[str, JsonText]) -> dict[str, Any]:
    """Return the columns of a row from its JSON form in a line. Raises CodecError if a column is damaged."""
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
