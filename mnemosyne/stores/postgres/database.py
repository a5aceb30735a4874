"""Connects to a PostgreSQL database, creates and recognises our tables, and translates the driver's errors.

Stores use psycopg only through this module and its neighbours, which are imported only if an address names PostgreSQL.

All tables are in one schema (`mnemosyne`, unless the address names another). The schema is created if it is missing,
and refused if it contains anything else. An advisory lock lets only one process at a time create the tables.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8BinaryDumper

from mnemosyne.core.errors import StoreBusyError, StoreError, StoreUnavailableError
from mnemosyne.stores.locate import PostgresAddress
from mnemosyne.stores.postgres.connection import Driver, TextLoader
from mnemosyne.stores.sql.schema import MARK, check_revision, statements
from mnemosyne.values import dataclass

OLDEST_SERVER = 140000
_TEXT = 25
_CONNECT_SECONDS = 10
_IDLE_SECONDS = 300
_MAKING_SECONDS = 60
_PLANS = """SET plan_cache_mode = force_generic_plan; SET jit = off; SET max_parallel_workers_per_gather = 0;
    SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off"""
"""Settings that make the cost of a statement independent of the server's estimate of a session's rows.

Every statement of the store has an index that gives its rows in their order. By default the server plans most
statements again each time (0.1 to 0.2 ms), because it estimates a generic plan to be more expensive. If its statistics
are old, or describe a thousand short sessions and a long one, it may read a whole session and sort it. With these
settings the server keeps generic plans and uses the indexes.
"""

_REASONS: tuple[tuple[type[psycopg.Error], str], ...] = (
    (errors.DiskFull, "the server's disk is full; free some space there and try again"),
    (errors.InsufficientResources, "the server has not enough disk or memory for it; try again later"),
    (errors.ReadOnlySqlTransaction, "this server takes no writes; name the one that does"),
    (errors.InsufficientPrivilege, "this user may not do that; grant the missing rights, or name another user"),
    (errors.UndefinedTable, "its tables are gone; open the store again to recreate them"),
    (errors.IoError, "the server could not read or write its disk; see its log"),
    (errors.InternalError, "the server reported a fault of its own; see its log"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PostgresOptions:
    """Options for opening a database."""

    address: PostgresAddress
    busy_seconds: float = 5.0
    """Maximum wait for a lock that another process holds, in seconds."""
    create: bool = True
    any_revision: bool = False
    """True if a database of another revision (format) may be opened, so that it can be converted."""


def open_driver(opening: PostgresOptions) -> Driver:
    """Return a connection to our schema. The schema and its tables are created if necessary.

    Raises StoreUnavailableError, and changes nothing, in these cases: the server cannot be used, the schema is of another
    program or another revision, or the schema is missing and `create` is false. Raises StoreBusyError if another process
    creates or converts the tables for too long.
    """
    driver = _connect(opening)
    try:
        shown = opening.address.shown
        if driver.info.server_version < OLDEST_SERVER:
            raise StoreUnavailableError(shown, f"it is PostgreSQL {driver.info.server_version // 10000}; 14 is needed")
        if driver.info.parameter_status("server_encoding") != "UTF8":
            raise StoreUnavailableError(shown, "its text encoding is not UTF-8; create a database with ENCODING 'UTF8'")
        revision = _recognise(driver, opening)
        if revision == 0:
            if not opening.create:
                raise StoreUnavailableError(shown, "there is no store in it; start a session there first")
            revision = _make(driver, opening)
        if not opening.any_revision:
            check_revision(revision, shown, shown)
    except BaseException:
        driver.close()
        raise
    return driver


def read_revision(opening: PostgresOptions) -> int:
    """Return the revision of our schema (0: it is empty or missing). Nothing is changed.

    Raises StoreUnavailableError if the schema is of another program.
    """
    driver = _connect(opening)
    try:
        return _recognise(driver, opening)
    finally:
        driver.close()


def _connect(opening: PostgresOptions) -> Driver:
    address = opening.address
    try:
        wanted: dict[str, Any] = {"connect_timeout": _CONNECT_SECONDS, "fallback_application_name": "jacquard"}
        wanted |= conninfo_to_dict(address.conninfo)
    except psycopg.ProgrammingError as error:
        reason = f"it cannot be read: {address.without_secrets(str(error)).strip()}"
        raise StoreUnavailableError(address.shown, reason) from None
    driver: Driver = psycopg.Connection.connect(**wanted, autocommit=True, cursor_factory=psycopg.RawCursor)
    driver.adapters.register_loader(_TEXT, TextLoader)
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
    driver.execute(_PLANS)
    return driver


def _lock(driver: Driver, schema: str) -> str:
    """Return the statement that waits for the advisory lock for creating the tables, held until the transaction ends."""
    name = sql.Literal(f"{MARK}.{schema}").as_string(driver)
    patience = f"set_config('lock_timeout', '{_MAKING_SECONDS}s', true)"
    return f"SELECT {patience}, pg_advisory_xact_lock(hashtextextended({name}, 0))"


def _recognise(driver: Driver, opening: PostgresOptions) -> int:
    """Return the revision of the schema, 0 for an empty or missing one; StoreUnavailableError when it is another program's."""
    address = opening.address
    row = driver.execute(
        b"""SELECT count(*), count(*) FILTER (WHERE obj_description(c.oid, 'pg_class') = $2),
                count(*) FILTER (WHERE c.relname = 'store_revision')
            FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1""",
        (address.schema, MARK),
    ).fetchone()
    found, ours, has_revision = row or (0, 0, 0)
    if not found:
        return 0
    if not ours:
        raise StoreUnavailableError(
            address.shown,
            f"its schema {address.schema!r} holds tables of another program; name another by ?schema=NAME",
        )
    newest = driver.execute("SELECT max(revision) FROM store_revision").fetchone() if has_revision else None
    return int(newest[0]) if newest else 1


def _make(driver: Driver, opening: PostgresOptions) -> int:
    """Create schema and tables in one transaction, unless another process has; return the revision."""
    schema = opening.address.schema
    with driver.transaction():
        driver.execute(_lock(driver, schema))
        revision = _recognise(driver, opening)
        if revision:
            return revision
        there = driver.execute("SELECT 1 FROM pg_namespace WHERE nspname = $1", (schema,)).fetchone()
        if there is None:
            driver.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        for statement in statements("postgresql"):
            driver.execute(statement.encode())
        return _recognise(driver, opening)


def translate_error(error: psycopg.Error | OSError, opening: PostgresOptions) -> StoreError | None:
    """Return the error to raise in place of the driver's `error`, or None if the cause is a bug in this package."""
    shown = opening.address.shown
    # Only its first line: the details quote rows.
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    said = " ".join(opening.address.without_secrets(primary or str(error)).split())
    if isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected | errors.SerializationFailure):
        return StoreBusyError(shown, opening.busy_seconds)
    if isinstance(error, errors.ProgramLimitExceeded):
        return StoreError(
            f"An id or name is too long to be stored ({said}). Nothing was written; choose a shorter one."
        )
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return StoreUnavailableError(shown, f"{reason} ({said})")
    if isinstance(error, psycopg.OperationalError | OSError):
        return StoreUnavailableError(
            shown, f"the server cannot be reached ({said}); check that it runs, its address, user and password"
        )
    return None
