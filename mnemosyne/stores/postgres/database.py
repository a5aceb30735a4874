"""A PostgreSQL database: how it is connected to, created, recognised and migrated, and the meaning of its errors.

It keeps the use of psycopg out of the stores. It knows nothing of the values that the rows hold, and is only imported when an
address names PostgreSQL.

All tables lie in one schema of their own (`mnemosyne` unless the address says otherwise), which is made when it is not
there and refused when it holds anything else. What an advisory lock of that schema guards (making, migrating) is done by
one process at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8BinaryDumper

from mnemosyne.core.errors import StoreBusyError, StoreError, StoreUnavailableError
from mnemosyne.stores.locate import PostgresAddress
from mnemosyne.stores.postgres.connection import Driver, TextLoader
from mnemosyne.stores.sql.schema import REVISION, statements

MARK = "mnemosyne"
"""The comment on `alembic_version` that tells our schema from another program's."""

OLDEST_SERVER = 140000
_TEXT = 25
_CONNECT_SECONDS = 10
_IDLE_SECONDS = 300
_MAKING_SECONDS = 60
_PLANS = """SET plan_cache_mode = force_generic_plan; SET jit = off; SET max_parallel_workers_per_gather = 0;
    SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off"""
"""What each statement costs must not hang on how many rows the server believes a session to have.

Every statement of the store has an index that gives its rows in their order. Left to itself the server plans most of them
anew each time (a tenth of a millisecond or two), since a plan for any session looks dear to it beside one for this session;
and where its statistics are old, or speak of a thousand short sessions beside the long one, it may read a whole session and
sort it. So it is told to keep its plans and to go by the indexes.
"""

_REASONS: tuple[tuple[type[psycopg.Error], str], ...] = (
    (errors.DiskFull, "the server's disk is full; free some space there and try again"),
    (errors.InsufficientResources, "the server has not enough disk or memory for it; try again later"),
    (errors.ReadOnlySqlTransaction, "this server takes no writes; name the one that does"),
    (errors.InsufficientPrivilege, "this user may not do that; grant what is missing, or name another user"),
    (errors.UndefinedTable, "its tables are gone; open the store again to have them made anew"),
    (errors.IoError, "the server could not read or write its disk; see its log"),
    (errors.InternalError, "the server reported a fault of its own; see its log"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PostgresOptions:
    """How to open a database. `busy_seconds` bounds the wait for another's lock."""

    address: PostgresAddress
    busy_seconds: float = 5.0
    create: bool = True


def open_driver(opening: PostgresOptions) -> Driver:
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
            import_module("mnemosyne.stores.migrations.migrate").migrate_postgres(
                lambda: _plain(_connect(opening)), lock
            )
    except BaseException:
        driver.close()
        raise
    return driver


def _plain(driver: Driver) -> Driver:
    """Return a connection as SQLAlchemy expects it."""
    driver.cursor_factory = psycopg.Cursor
    driver.autocommit = False
    return driver


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
    """Return the statement that waits for the right to make or change the tables, held until the transaction ends."""
    name = sql.Literal(f"{MARK}.{schema}").as_string(driver)
    patience = f"set_config('lock_timeout', '{_MAKING_SECONDS}s', true)"
    return f"SELECT {patience}, pg_advisory_xact_lock(hashtextextended({name}, 0))"


def _recognise(driver: Driver, opening: PostgresOptions) -> int:
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


def _make(driver: Driver, opening: PostgresOptions) -> int:
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
        for statement in (*statements("postgresql"), *mark_statement()):
            driver.execute(statement.encode())
    return REVISION


def mark_statement() -> tuple[str, ...]:
    """Return what makes a schema known as ours."""
    return (f"COMMENT ON TABLE alembic_version IS '{MARK}'",)


def translate_error(error: psycopg.Error | OSError, opening: PostgresOptions) -> StoreError | None:
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
