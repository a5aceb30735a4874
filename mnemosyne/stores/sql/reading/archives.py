"""Packs the rows of a session into an archive, and reads archives. An archive consists of parts of compressed JSON.

A part contains rows of several tables with the names of their columns, so it can also be read by a release with more columns.
Bodies are decompressed before they are packed: the prompts of one session repeat each other, and LZMA finds repetitions over a
megabyte, zlib only over 32 KB. Each part contains its session, its number, and the checksum of LZMA.
"""

from __future__ import annotations

import lzma
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from mnemosyne.core.codec import decode, encode
from mnemosyne.core.errors import BranchNotFoundError, DamagedRecordError, UnreadableError
from mnemosyne.schema.memory import session_scope
from mnemosyne.schema.session import SessionHead
from mnemosyne.stores.sql import sessions
from mnemosyne.stores.sql.blobs import pack_blob, unpack_blob
from mnemosyne.stores.sql.connection import Connection, expand_in
from mnemosyne.stores.sql.schema import COLUMNS, OF_A_SESSION, OF_A_TURN
from mnemosyne.values import dataclass

PART_BYTES = 8_000_000
"""Maximum size of the rows in one part, in bytes. These rows are in memory together. A single row may be larger."""

_PRESET = 1
"""Compression level with a dictionary of one megabyte, because the prompts of neighbouring turns are 160 KB apart."""

_TURNS_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRows:
    """Rows of one table. Each row has its cells in the order of `columns`."""

    table: str
    columns: tuple[str, ...]
    rows: list[list[Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchivePart:
    """One part of an archive: its session (id and number `key`), its number `part` counted from 0, and its rows."""

    session_id: str
    key: int
    part: int
    tables: list[TableRows]


def read_head(connection: Connection, session_id: str, branch_id: str | None = None) -> SessionHead:
    """Return the head of a branch (None: the active one). An archived session is not opened for this.

    Raises BranchNotFoundError if there is no such branch.
    """
    try:
        return sessions.read_head(connection, session_id, branch_id)
    except sessions.SessionArchivedError:
        heads = _archived_heads(connection, session_id)
    found = heads[0] if branch_id is None else next((head for head in heads if head.branch_id == branch_id), None)
    if found is None:
        raise BranchNotFoundError(session_id, str(branch_id))
    return found


def read_branches(connection: Connection, session_id: str) -> tuple[SessionHead, ...]:
    """Return the heads of all branches of a session. An archived session is not opened for this."""
    try:
        return sessions.read_branches(connection, session_id)
    except sessions.SessionArchivedError:
        return _archived_heads(connection, session_id)


def _archived_heads(connection: Connection, session_id: str) -> tuple[SessionHead, ...]:
    row = connection.execute(
        "SELECT a.heads FROM sessions AS s JOIN archives AS a ON a.session = s.key WHERE s.tenant = ? AND s.session_id = ?",
        (connection.tenant, session_id),
    ).fetchone()
    try:
        return decode(bytes(row[0]), tuple[SessionHead, ...])
    except (UnreadableError, TypeError) as error:
        raise DamagedRecordError(connection.shown, f"The archive of session {session_id!r}", str(error)) from None


def find_archived(connection: Connection, keys: Collection[int]) -> frozenset[int]:
    """Return the session numbers in `keys` whose sessions are archived."""
    marks, values = expand_in(list(keys))
    rows = connection.execute(f"SELECT session FROM archives WHERE session IN ({marks})", values)
    return frozenset(key for (key,) in rows)


def archived_of_user(connection: Connection, user_id: str) -> tuple[str, ...]:
    """Return the ids of archived sessions that a user owns, or in which the user wrote."""
    rows = connection.execute(
        f"""SELECT s.session_id FROM archives AS a JOIN sessions AS s ON s.key = a.session
            WHERE a.tenant = ? AND (s.user_id = ? OR {connection.contains("a.authors")}) ORDER BY a.session""",
        (connection.tenant, user_id, encode(user_id)),
    )
    return tuple(name for (name,) in rows)


def read_session_rows(connection: Connection, key: int, session_id: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield (table, row) for every row of an open session."""
    numbers: list[int] = []
    for table in OF_A_SESSION:
        columns = ", ".join(COLUMNS[table.table])
        for row in connection.execute(f"SELECT {columns} FROM {table.table} WHERE session = ?", (key,)).fetchall():
            numbers += [row[0]] * (table.table == "turns")
            yield table.table, tuple(row)
    columns = ", ".join(COLUMNS[OF_A_TURN.table])
    for start in range(0, len(numbers), _TURNS_AT_ONCE):
        marks, values = expand_in(numbers[start : start + _TURNS_AT_ONCE])
        for row in connection.execute(f"SELECT {columns} FROM papers WHERE turn IN ({marks})", values).fetchall():
            yield OF_A_TURN.table, tuple(row)
    columns = ", ".join(COLUMNS["entries"])
    rows = connection.execute(
        f"SELECT {columns} FROM entries WHERE tenant = ? AND scope = ?", (connection.tenant, session_scope(session_id))
    ).fetchall()
    for row in rows:
        yield "entries", tuple(row)


def delete_session_rows(connection: Connection, key: int, session_id: str) -> None:
    """Delete every row of a session except its row in `sessions`."""
    connection.execute("DELETE FROM papers WHERE turn IN (SELECT number FROM turns WHERE session = ?)", (key,))
    for table in OF_A_SESSION:
        connection.execute(f"DELETE FROM {table.table} WHERE session = ?", (key,))
    connection.execute(
        "DELETE FROM entries WHERE tenant = ? AND scope = ?", (connection.tenant, session_scope(session_id))
    )


def pack_rows(
    session_id: str, key: int, rows: Iterator[tuple[str, tuple[Any, ...]]]
) -> Iterator[tuple[bytes, int, int]]:
    """Yield (bytes, number of rows, uncompressed size) for each part of an archive with these rows."""
    tables: dict[str, TableRows] = {}
    part, number, size = 0, 0, 0
    for table, cells in rows:
        kept = tables.setdefault(table, TableRows(table=table, columns=COLUMNS[table]))
        kept.rows.append([_to_json(cell) for cell in cells])
        number, size = number + 1, size + sum(map(_size, cells))
        if size >= PART_BYTES:
            yield _pack(session_id, key, part, tables), number, size
            tables, part, number, size = {}, part + 1, 0, 0
    if tables or not part:
        yield _pack(session_id, key, part, tables), number, size


def _pack(session_id: str, key: int, part: int, tables: Mapping[str, TableRows]) -> bytes:
    value = ArchivePart(session_id=session_id, key=key, part=part, tables=list(tables.values()))
    return lzma.compress(encode(value), preset=_PRESET)


def read_parts(connection: Connection, key: int, session_id: str) -> Iterator[ArchivePart]:
    """Yield the parts of a session's archive in order. Raises DamagedRecordError if a part is missing or cannot be read."""
    what = f"The archive of session {session_id!r}"
    numbers = connection.execute("SELECT part FROM archive_parts WHERE session = ? ORDER BY part", (key,)).fetchall()
    if [number for (number,) in numbers] != list(range(len(numbers))) or not numbers:
        raise DamagedRecordError(connection.shown, what, "a part of it is missing")
    for (number,) in numbers:
        (body,) = connection.execute(
            "SELECT body FROM archive_parts WHERE session = ? AND part = ?", (key, number)
        ).fetchone()
        try:
            found = decode(lzma.decompress(bytes(body)), ArchivePart)
        except (lzma.LZMAError, UnreadableError) as error:
            raise DamagedRecordError(connection.shown, what, str(error)) from None
        if (found.session_id, found.key, found.part) != (session_id, key, number):
            raise DamagedRecordError(connection.shown, what, "it is that of another session")
        yield found


def cells_of(row: Sequence[Any]) -> list[Any]:
    """Return the cells of an archived row in the form that the tables contain."""
    return [_from_json(cell) for cell in row]


def read_archived_rows(connection: Connection, key: int, session_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (table, row by column) for every row of an archived session.

    Raises DamagedRecordError if the archive cannot be read.
    """
    for part in read_parts(connection, key, session_id):
        for kept in part.tables:
            for row in kept.rows:
                yield kept.table, dict(zip(kept.columns, cells_of(row), strict=True))


def _size(cell: Any) -> int:
    return len(cell) if isinstance(cell, str | bytes | memoryview) else 8


def _to_json(cell: Any) -> Any:
    """Return a cell as JSON: numbers unchanged, text and bytes with a letter for their type before them."""
    if cell is None or isinstance(cell, int):
        return cell
    if isinstance(cell, str):
        return f"t{cell}"
    data = bytes(cell)
    try:
        body = unpack_blob(data)
        if body is not data and body != data and pack_blob(body) == data:
            return f"z{body.decode()}"
        return f"b{data.decode()}"
    except (UnreadableError, UnicodeDecodeError):
        return f"r{b64encode(data).decode()}"


def _from_json(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    kind, text = cell[0], cell[1:]
    if kind == "t":
        return text
    if kind == "r":
        return b64decode(text)
    return pack_blob(text.encode()) if kind == "z" else text.encode()
