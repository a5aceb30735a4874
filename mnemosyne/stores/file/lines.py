"""The lines of a journal: what each holds, its checksum, and the formats that releases have written.

The checksum of a line is a CRC-32 of the line and of the scope, so that a changed bit is noticed and so is a line of
another journal. It is the last field, `sum`; lines of older releases have none.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemosyne.core.codec import JsonText, decode, encode
from mnemosyne.core.errors import CodecError, DamagedRecordError, StoreUnavailableError
from mnemosyne.stores.ledger.rows import PACK, ROW_TYPES, TABLES, Change

FORMAT = 2
"""The newest format: 2 is a journal with a world pack, which a release that knows only format 1 cannot read."""

FIRST_FORMAT = 1
_DROPPED = JsonText(b"null")


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """The first line. `generation` changes whenever the file is rewritten; the `kept` lines after it are a snapshot."""

    format: int
    scope: str
    generation: str
    kept: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One write: its number in the file (1-based), what it did, and table, key and body (null: dropped) of each row."""

    n: int
    did: str
    rows: tuple[tuple[str, str, JsonText], ...]


_SUM = re.compile(rb',"sum":([0-9]{1,10})\}\n\Z')


def with_sum(body: bytes, scope: str) -> bytes:
    """Return a JSON object as a line of a journal, with its checksum as the last field."""
    number = zlib.crc32(body, zlib.crc32(scope.encode("utf-8", "surrogatepass")))
    return body[:-1] + b',"sum":%d}\n' % number


def without_sum(line: bytes, scope: str) -> bytes:
    """Return the JSON of a line; CodecError when its checksum does not fit. A line without one is returned as it is."""
    found = _SUM.search(line)
    if found is None:
        return line
    body = line[: found.start()] + b"}"
    if with_sum(body, scope) != line:
        raise CodecError("its checksum does not fit")
    return body


def read_header(line: bytes) -> Header:
    """Return the header in a first line; CodecError when it holds none, ValueError when a newer release wrote it."""
    header = decode(line, Header)
    without_sum(line, header.scope)
    if header.format > FORMAT:
        raise ValueError(
            f"it was written by a newer release (format {header.format}, this one reads up to {FORMAT}); update"
        )
    return header


def read_scope(path: Path) -> str:
    """Return the scope of a journal; StoreUnavailableError when it cannot be read, DamagedRecordError when its header
    cannot.
    """
    with path.open("rb") as file:
        line = file.readline()
    try:
        return read_header(line).scope
    except CodecError as error:
        raise DamagedRecordError(str(path), "Line 1", str(error)) from None
    except ValueError as error:
        raise StoreUnavailableError(str(path), str(error)) from None


def line_of(path: Path, data: bytes) -> int | None:
    """Return the number (1-based) of the first line of a journal that contains these bytes, or None."""
    if not data:
        return None
    with path.open("rb") as file:
        return next((number for number, line in enumerate(file, start=1) if data in line), None)


def format_of(changes: Sequence[Change]) -> int:
    """Return the oldest format that supports these rows."""
    return FORMAT if any(change.table == PACK for change in changes) else FIRST_FORMAT


def write_line(number: int, name: str, changes: Sequence[Change], scope: str) -> bytes:
    """Return the line of one write, with its checksum."""
    rows: list[tuple[str, str, Any]] = [(change.table, change.key, change.row) for change in changes]
    return with_sum(encode({"n": number, "did": name, "rows": rows}), scope)


def change_of(table: str, key: str, body: JsonText) -> Change:
    """Return a row of a line; CodecError when it is damaged."""
    if table not in TABLES:
        raise CodecError(f"there is no table {table!r}")
    if body == _DROPPED:
        return Change(table=table, key=key, row=None)
    if table not in ROW_TYPES:
        return Change(table=table, key=key, row=body)
    return Change(table=table, key=key, row=decode(body, ROW_TYPES[table]))
