"""A PostgreSQL database: how it is reached, made, recognised and brought up to date, and what its errors mean.

The room exists so that psycopg stands in one file. It knows nothing of the values that the rows hold, and is only imported
when an address names PostgreSQL.

All tables lie in one schema of their own (`mnemosyne` unless the address says otherwise), which is made when it is not
there and refused when it holds anything else. What an advisory lock of that schema guards (making, migrating) is done by
one process at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import count
from typing import Any

import psycopg
from psycopg import errors, pq, sql
from psycopg.adapt import Buffer, Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8BinaryDumper

from mnemosyne.errors import StoreBusyError, StoreError, StoreUnavailableError
from mnemosyne.stores.locate import PostgresAddress
from mnemosyne.stores.sql_connection import Rows
from mnemosyne.stores.sql_schema import REVISION, statements

Driver = psycopg.Connection[tuple[Any, ...]]

MARK = "mnemosyne"
"""The comment on `alembic_version` that tells our schema from another program's."""

OLDEST_SERVER = 140000
_TEXT = 25
_CONNECT_SECONDS = 10
_IDLE_SECONDS = 300
_MAKING_SECONDS = 60

_REASONS: tuple[tuple[type[psycopg.Error], str], ...] = (
    (errors.DiskFull, "the server's disk is full; free some space there and try again"),
    (errors.InsufficientResources, "the server has no room for it; try again later"),
    (errors.ReadOnlySqlTransaction, "this server takes no writes; name the one that does"),
    (errors.InsufficientPrivilege, "this user may not do that; grant what is missing, or name another user"),
    (errors.UndefinedTable, "its tables are gone; open the store again to have them made anew"),
    (errors.IoError, "the server could not read or write its disk; see its log"),
    (errors.InternalError, "the server reported a fault of its own; see its log"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PostgresOpening:
    """How to open a database. `busy_seconds` bounds the wait for another's lock."""

    address: PostgresAddress
    busy_seconds: float = 5.0
    create: bool = True


class PostgresConnection:
    """A connection of the driver inside a transaction, for one tenant."""

    def __init__(self, driver: Driver, tenant: str, lock: str) -> None:
        self.driver = driver
        self.tenant = tenant
        self.lock = lock

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Rows:
        """Run one statement."""
        return self.driver.cursor(binary=True).execute(_numbered(sql), _escaped(parameters))

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each of these rows."""
        self.driver.cursor().executemany(_numbered(sql), [_escaped(row) for row in rows])

    def contains(self, column: str) -> str:
        """Return the condition that a text or a blob holds the value of a `?`."""
        return f"position(? IN {column}) > 0"


@lru_cache(maxsize=512)
def _numbered(sql: str) -> bytes:
    """Return a statement with `$1`, `$2` … in place of `?`."""
    numbers = count(1)
    return "".join(f"${next(numbers)}" if sign == "?" else sign for sign in sql).encode()


def _escaped(values: Sequence[Any]) -> Sequence[Any]:
    """Write NUL, which PostgreSQL's text cannot hold, as two characters; what is compared and sorted stays in order."""
    if any(isinstance(value, str) and ("\0" in value or "\1" in value) for value in values):
        return [escape_text(value) if isinstance(value, str) else value for value in values]
    return values


def escape_text(text: str) -> str:
    """Return a text without NUL: U+0000 is written U+0001 U+0001, and U+0001 is written U+0001 U+0002."""
    return text.replace("\1", "\1\2").replace("\0", "\1\1")


def unescape_text(text: str) -> str:
    """Return the text that `escape_text` wrote."""
    return text.replace("\1\1", "\0").replace("\1\2", "\1")


class _TextLoader(Loader):
    format = pq.Format.BINARY

    def load(self, data: Buffer) -> str:
        text = bytes(data).decode()
        return unescape_text(text) if "\1" in text else text


def open_driver(opening: PostgresOpening) -> Driver:
    """Return a connection that speaks to our schema, made or migrated if need be; StoreUnavailableError, StoreBusyError.

    A schema of another program or of a newer release, and with `create` false a missing one, is left as it is.
    """
    driver = _connect(opening)
    try:
        shown = opening.address.shown
        if driver.info.server_version < OLDEST_SERVER:
            raise StoreUnavailableError(shown, f"it is PostgreSQL {driver.info.server_version // 10000}; 14 is needed")
        if driver.info.parameter_status("server_encoding") != "UTF8":
            raise StoreUnavailableError(shown, "its text is not kept as UTF-8; make a database with ENCODING 'UTF8'")
        revision = _recognise(driver, opening)
        if revision == 0:
            if not opening.create:
                raise StoreUnavailableError(shown, "there is no store in it; start a session there first")
            revision = _make(driver, opening)
        if revision < REVISION:
            lock = _lock(driver, opening.address.schema)
            import_module("mnemosyne.stores.migrate").migrate_postgres(lambda: _plain(_connect(opening)), lock)
    except BaseException:
        driver.close()
        raise
    return driver


def _plain(driver: Driver) -> Driver:
    """Return a connection as SQLAlchemy expects it."""
    driver.cursor_factory = psycopg.Cursor
    driver.autocommit = False
    return driver


def _connect(opening: PostgresOpening) -> Driver:
    address = opening.address
    try:
        wanted: dict[str, Any] = {"connect_timeout": _CONNECT_SECONDS, "fallback_application_name": "jacquard"}
        wanted |= conninfo_to_dict(address.conninfo)
    except psycopg.ProgrammingError as error:
        reason = f"it cannot be read: {address.without_secrets(str(error)).strip()}"
        raise StoreUnavailableError(address.shown, reason) from None
    driver: Driver = psycopg.Connection.connect(**wanted, autocommit=True, cursor_factory=psycopg.RawCursor)
    driver.adapters.register_loader(_TEXT, _TextLoader)
    driver.adapters.register_dumper(int, Int8BinaryDumper)
    driver.execute(
        sql.SQL(
            "SET search_path = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {};"
            "SET client_encoding = 'UTF8'; SET default_transaction_isolation = 'read committed'"
        ).format(
            sql.Identifier(address.schema),
            sql.Literal(str(max(1, round(opening.busy_seconds * 1000)))),
            sql.Literal(str(_IDLE_SECONDS * 1000)),
        )
    )
    return driver


def _lock(driver: Driver, schema: str) -> str:
    """Return the statement that waits for the right to make or change the tables, held until the transaction ends."""
    name = sql.Literal(f"{MARK}.{schema}").as_string(driver)
    patience = f"set_config('lock_timeout', '{_MAKING_SECONDS}s', true)"
    return f"SELECT {patience}, pg_advisory_xact_lock(hashtextextended({name}, 0))"


def _recognise(driver: Driver, opening: PostgresOpening) -> int:
    """Return the revision of the schema (0 = empty or not there); StoreUnavailableError when not ours or too new."""
    address = opening.address
    row = driver.execute(
        b"""SELECT count(*), count(*) FILTER (
                WHERE c.relname = 'alembic_version' AND obj_description(c.oid, 'pg_class') = $2)
            FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1""",
        (address.schema, MARK),
    ).fetchone()
    found, ours = row or (0, 0)
    if not found:
        return 0
    if not ours:
        raise StoreUnavailableError(
            address.shown,
            f"its schema {address.schema!r} holds tables of another program; name another by ?schema=NAME",
        )
    stamped = driver.execute("SELECT version_num FROM alembic_version").fetchone()
    revision = int(stamped[0]) if stamped else 0
    if revision > REVISION:
        raise StoreUnavailableError(
            address.shown,
            f"it was written by a newer release (store version {revision}, this one reads up to {REVISION}); update",
        )
    return revision


def _make(driver: Driver, opening: PostgresOpening) -> int:
    """Make schema and tables in one transaction; whoever comes second finds them there. Returns the revision."""
    schema = opening.address.schema
    with driver.transaction():
        driver.execute(_lock(driver, schema))
        revision = _recognise(driver, opening)
        if revision:
            return revision
        there = driver.execute("SELECT 1 FROM pg_namespace WHERE nspname = $1", (schema,)).fetchone()
        if there is None:
            driver.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        for statement in (*statements("postgresql"), *marks()):
            driver.execute(statement.encode())
    return REVISION


def marks() -> tuple[str, ...]:
    """Return what makes a schema known as ours."""
    return (f"COMMENT ON TABLE alembic_version IS '{MARK}'",)


def meaning_of(error: psycopg.Error | OSError, opening: PostgresOpening) -> StoreError | None:
    """Return what an error of the driver means to a caller, or None when it is a fault of our own."""
    shown = opening.address.shown
    said = " ".join(opening.address.without_secrets(str(error)).split())
    if isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected | errors.SerializationFailure):
        return StoreBusyError(shown, opening.busy_seconds)
    if isinstance(error, errors.ProgramLimitExceeded):
        return StoreError(f"An id or name is too long to be kept ({said}). Nothing was written; choose a shorter one.")
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return StoreUnavailableError(shown, f"{reason} ({said})")
    if isinstance(error, psycopg.OperationalError | OSError):
        return StoreUnavailableError(
            shown, f"the server cannot be reached ({said}); check that it runs, its address, user and password"
        )
    return None
