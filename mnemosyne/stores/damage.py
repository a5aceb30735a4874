"""Builds the error for a stored row that cannot be read, with the place of the row and the fault.

A function that decodes a row has the bytes of the row, but not its place. So the tables are searched for these bytes, and the
error names the session, the row and the column.
"""

from __future__ import annotations

import contextlib
import zlib

from mnemosyne.core.errors import DamagedRecordError, UnreadableError
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.schema import OF_A_SESSION, OF_A_TENANT, OF_A_TURN, TextTable

DAMAGED = (UnreadableError, LookupError)
"""Errors that mean a damaged row: the bytes of the row cannot be decoded, or the row refers to another row that is missing."""

_ANYTHING = "A record"


def build_damage_error(error: UnreadableError | LookupError, path: str, what: str = "") -> DamagedRecordError:
    """Return the error to raise for a record that could not be read.

    `error` is the error that reading the record raised, and `path` is the place of the store. `what` names the record ('' if it
    is not known).
    """
    if isinstance(error, UnreadableError):
        return DamagedRecordError(path, what or _ANYTHING, str(error))
    return DamagedRecordError(path, what or _ANYTHING, f"it refers to something that does not exist ({error})")


def locate_damage(connection: Connection, error: UnreadableError | LookupError, shown: str) -> DamagedRecordError:
    """Return the error to raise for a record of a SQL store that could not be read. `shown` is the store's name.

    The transaction that met the record must still be open on `connection`.
    """
    what = ""
    with contextlib.suppress(Exception):  # whatever else is wrong with the tables, the first error is the one to report
        what = row_of(connection, error.data) if isinstance(error, UnreadableError) else ""
    return build_damage_error(error, shown, what)


def row_of(connection: Connection, data: bytes) -> str:
    """Return the name of the row and column of the tenant that contain the bytes `data`, or '' if there are none.

    It reads whole tables.
    """
    if not data:
        return ""
    sources = [(kept, "t.", f"{kept.table} AS t JOIN sessions AS s ON s.key = t.session") for kept in OF_A_SESSION]
    sources += [(kept, "s.", f"{kept.table} AS s") for kept in OF_A_TENANT]
    for kept, alias, source in sources:
        for column in kept.bodies:
            session = "''" if alias == "s." else "s.session_id"
            key = kept.key if kept.key.startswith("'") else f"{alias}{kept.key}"
            row = connection.execute(
                f"SELECT {session}, {key} FROM {source} WHERE s.tenant = ? AND {alias}{column} = ?",
                (connection.tenant, data),
            ).fetchone()
            if row is not None:
                return _name_record(kept, column, *row)
    return _find_blob(connection, data)


def _find_blob(connection: Connection, data: bytes) -> str:
    columns = ", ".join(f"p.{column}" for column in OF_A_TURN.bodies)
    rows = connection.execute(
        f"SELECT s.session_id, u.turn_id, {columns} FROM papers AS p JOIN turns AS u ON u.number = p.turn "
        "JOIN sessions AS s ON s.key = u.session WHERE s.tenant = ?",
        (connection.tenant,),
    )
    for session_id, turn_id, *cells in rows:
        for column, cell in zip(OF_A_TURN.bodies, cells, strict=True):
            if cell is not None and (bytes(cell) == data or _packs(bytes(cell), data)):
                return _name_record(OF_A_TURN, column, session_id, turn_id)
    return ""


def _packs(cell: bytes, data: bytes) -> bool:
    try:
        return zlib.decompress(cell) == data
    except zlib.error:
        return False


def _name_record(kept: TextTable, column: str, session_id: str, key: str) -> str:
    of = f" of session {session_id!r}" if session_id else ""
    return f"The {column} of {kept.table}/{key}{of}" if key else f"The {column} of {kept.table}{of}"
