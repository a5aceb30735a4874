"""Opens whole SQL stores, each in one transaction, and copies rows from one to another: SQLite or PostgreSQL.

Both databases have the same tables with the same three types (text, integer, bytes). So a row is copied unchanged, with
its numbers, versions and checksums.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from itertools import count
from typing import Any

from mnemosyne.core.errors import StoreUnavailableError
from mnemosyne.stores.locate import StoreLocation
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.schema import COLUMNS, OF_THE_DATABASE, TABLES, Dialect
from mnemosyne.stores.sqlite.file import SqliteConnection, SqliteOptions, open_database, read_revision
from mnemosyne.values import dataclass

PAGE_ROWS = 1_000
"""Number of rows that are in memory at once. A single row may be as large as a world pack."""

NAMES = tuple(table for table in COLUMNS if table not in OF_THE_DATABASE)
"""Names of the tables that are copied, in order."""

SERIALS: Mapping[str, str] = {
    found[1]: found[2] for each in TABLES if (found := re.match(r"CREATE TABLE (\w+) \(\s*(\w+) {serial}", each))
}
"""For each table whose rows the database numbers: the column of the number."""

_OF_A_TENANT = "session IN (SELECT key FROM sessions WHERE tenant = ?)"


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenRows:
    """A SQL store that is open inside a transaction, for all tenants."""

    connection: Connection
    dialect: Dialect
    shown: str


@contextmanager
def reading(location: StoreLocation) -> Iterator[OpenRows]:
    """Open a snapshot of a store for reading, while others may write to the store.

    Raises StoreUnavailableError if there is no store.
    """
    with _opened(location, create=False) as rows:
        begin = "BEGIN" if rows.dialect == "sqlite" else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with _transaction(rows, begin):
            yield rows


@contextmanager
def writing(location: StoreLocation) -> Iterator[OpenRows]:
    """Open an empty store for writing; a missing store is created. If the block raises, nothing is written.

    Raises StoreUnavailableError if the store is not empty.
    """
    with (
        _opened(location, create=True) as rows,
        _transaction(rows, "BEGIN IMMEDIATE" if rows.dialect == "sqlite" else "BEGIN"),
    ):
        for table in NAMES:
            if rows.connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None:
                raise StoreUnavailableError(rows.shown, f"it is not empty (table {table}); name a new store")
        yield rows


@contextmanager
def converting(location: StoreLocation) -> Iterator[OpenRows]:
    """Open a store of any revision, while no other process reads or writes it. If the block raises, nothing is written."""
    with (
        _opened(location, create=False, any_revision=True) as rows,
        _transaction(rows, "BEGIN IMMEDIATE" if rows.dialect == "sqlite" else "BEGIN"),
    ):
        if rows.dialect == "postgresql":
            rows.connection.execute("LOCK TABLE sessions, store_revision IN ACCESS EXCLUSIVE MODE")
        yield rows


def find_revision(location: StoreLocation) -> int:
    """Return the revision (format) of a SQL store, or 0 if the database has no tables. Nothing is changed. This blocks.

    Raises StoreUnavailableError if there is no store, or the store is of a kind without revisions.
    """
    if location.postgres is not None:
        database: Any = import_module("mnemosyne.stores.postgres.database")
        options = database.PostgresOptions(address=location.postgres)
        with postgres_errors(options):
            return int(database.read_revision(options))
    if location.database is None or location.kind != "sqlite":
        raise StoreUnavailableError(location.shown, "only stores in SQLite and PostgreSQL have revisions")
    if not location.database.is_file():
        raise StoreUnavailableError(location.shown, "there is no store in it; start a session there first")
    return read_revision(location.database)


def copy_rows(source: OpenRows, target: OpenRows, tenant: str | None = None) -> dict[str, int]:
    """Copy the rows of `tenant` (None: of all tenants) from `source` to `target`. Return the number of copied rows by table."""
    copied: dict[str, int] = {}
    for table in NAMES:
        columns = _columns(source, table)
        condition = _condition(table, columns) if tenant is not None else ""
        copied[table] = 0
        for page in _pages(source, table, columns, condition, () if tenant is None else (tenant,)):
            target.connection.insert(table, ", ".join(columns), page)
            copied[table] += len(page)
        if table in SERIALS:
            _count_on(target, table, _last_number(source, table))
    return copied


def _last_number(rows: OpenRows, table: str) -> int:
    """Return the last number that was drawn for a table; rows of archived sessions, which are not in it, have theirs below."""
    if rows.dialect == "sqlite":
        found = rows.connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        return 0 if found is None else int(found[0])
    drawn, called = rows.connection.execute(
        f"SELECT last_value, is_called FROM {table}_{SERIALS[table]}_seq"
    ).fetchone()
    return int(drawn) if called else 0


def _count_on(rows: OpenRows, table: str, last: int) -> None:
    """Continue the numbers of a table after `last`: a number that was drawn once is not drawn again."""
    if rows.dialect == "sqlite":
        rows.connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        rows.connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, last))
    elif last:
        rows.connection.execute(
            f"SELECT setval(pg_get_serial_sequence('{table}', '{SERIALS[table]}'), {last})"
        ).fetchall()


def _condition(table: str, columns: Sequence[str]) -> str:
    if "tenant" in columns:
        return " WHERE tenant = ?"
    if "session" in columns:
        return f" WHERE {_OF_A_TENANT}"
    return f" WHERE turn IN (SELECT number FROM turns WHERE {_OF_A_TENANT})"


def _columns(rows: OpenRows, table: str) -> list[str]:
    if rows.dialect == "sqlite":
        found = rows.connection.execute("SELECT name FROM pragma_table_info(?) ORDER BY cid", (table,))
    else:
        found = rows.connection.execute(
            "SELECT column_name::text FROM information_schema.columns WHERE table_schema = current_schema() "
            "AND table_name = ? ORDER BY ordinal_position",
            (table,),
        )
    return [name for (name,) in found]


def _pages(
    rows: OpenRows, table: str, columns: Sequence[str], condition: str, values: Sequence[str]
) -> Iterator[list[tuple[Any, ...]]]:
    query = f"SELECT {', '.join(columns)} FROM {table}{condition} ORDER BY 1"
    if rows.dialect == "postgresql":
        cursor = f"copy_{table}"
        rows.connection.execute(f"DECLARE {cursor} NO SCROLL CURSOR FOR {query}", values)
        for _ in count():
            page = rows.connection.execute(f"FETCH {PAGE_ROWS} FROM {cursor}").fetchall()
            if not page:
                return
            yield [tuple(row) for row in page]
    page = []
    for row in rows.connection.execute(query, values):
        page.append(tuple(row))
        if len(page) == PAGE_ROWS:
            yield page
            page = []
    if page:
        yield page


@contextmanager
def postgres_errors(options: Any) -> Iterator[None]:
    """Turn errors of psycopg in the block into StoreUnavailableError or StoreBusyError.

    `options` are the options with which the connection was opened.
    """
    psycopg: Any = import_module("psycopg")
    database: Any = import_module("mnemosyne.stores.postgres.database")
    try:
        yield
    except psycopg.IntegrityError as error:
        raise StoreUnavailableError(options.address.shown, f"rows do not fit: {error}") from error
    except psycopg.Error as error:
        raise database.translate_error(error, options) or error from error


@contextmanager
def _opened(location: StoreLocation, *, create: bool, any_revision: bool = False) -> Iterator[OpenRows]:
    if location.postgres is not None:
        # psycopg is loaded only for an address of PostgreSQL.
        database = import_module("mnemosyne.stores.postgres.database")
        connection = import_module("mnemosyne.stores.postgres.connection")
        options = database.PostgresOptions(address=location.postgres, create=create, any_revision=any_revision)
        with postgres_errors(options), closing(database.open_driver(options)) as driver:
            driver.execute(b"SET enable_seqscan = on; SET enable_sort = on")
            yield OpenRows(
                connection=connection.PostgresConnection(driver, "", ""), dialect="postgresql", shown=location.shown
            )
        return
    if location.kind != "sqlite" or location.database is None:
        raise StoreUnavailableError(location.shown, "only stores in SQLite, PostgreSQL and folders of files are copied")
    opened = open_database(SqliteOptions(path=location.database, create=create, any_revision=any_revision))
    try:
        yield OpenRows(connection=SqliteConnection(opened, ""), dialect="sqlite", shown=location.shown)
    except sqlite3.IntegrityError as error:
        raise StoreUnavailableError(location.shown, f"rows do not fit: {error}") from error
    finally:
        opened.close()


@contextmanager
def _transaction(rows: OpenRows, begin: str) -> Iterator[None]:
    rows.connection.execute(begin)
    try:
        yield
    except BaseException:
        rows.connection.execute("ROLLBACK")
        raise
    rows.connection.execute("COMMIT")
