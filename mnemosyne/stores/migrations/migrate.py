"""Migrates a store of an older release with Alembic.

Only this module imports Alembic and SQLAlchemy, and only when a database is behind. All revisions run in one
transaction: either all are applied or nothing has changed. Revisions are in `migrations/versions/`.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, event, inspect
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from mnemosyne.stores.sql.schema import NEEDED, REVISION

_FOLDER = Path(__file__).parent


def migrate_sqlite(path: Path, busy_seconds: float) -> None:
    """Migrate a SQLite file to the current revision; a second process finds it done. Errors of sqlite3 pass through."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA secure_delete = ON")
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
    event.listen(engine, "begin", _begin_at_once)
    try:
        with engine.begin() as connection:
            stamp = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
            needed = upgrade_to_ours(connection, stamp)
            if needed != stamp:
                connection.exec_driver_sql(f"PRAGMA user_version = {needed}")
    except DBAPIError as error:
        raise (error.orig or error) from error
    finally:
        engine.dispose()
    _rewrite(connect())


def _begin_at_once(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _rewrite(connection: sqlite3.Connection) -> None:
    """Rewrite the file, so that its free pages hold nothing that an erasure could not reach; if the file is in use,
    skip it.
    """
    with contextlib.closing(connection), contextlib.suppress(sqlite3.Error):
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def migrate_postgres(connect: Callable[[], Any], lock: str) -> None:
    """Migrate the tables of a PostgreSQL schema to the current revision. Errors of psycopg pass through.

    `connect` opens a connection whose search path is the schema; `lock` is the statement that lets one migrate at a
    time.
    """
    engine = create_engine("postgresql+psycopg://", creator=connect, poolclass=NullPool)
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql(lock)
            upgrade_to_ours(
                connection, int(connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one())
            )
    except DBAPIError as error:
        raise (error.orig or error) from error
    finally:
        engine.dispose()


def upgrade_to_ours(connection: Connection, needed: int) -> int:
    """Bring a database that needs revision `needed` to ours, unless it is there; return which one it needs afterwards.

    Tables that an older release can go on over keep the number that this release needs, so that both run side by side.
    """
    revision = needed
    if inspect(connection).has_table("store_revision") and needed >= NEEDED:
        revision = connection.exec_driver_sql("SELECT max(revision) FROM store_revision").scalar_one()
    if revision >= REVISION:
        return needed
    upgrade(connection, revision)
    connection.exec_driver_sql("DELETE FROM store_revision")
    connection.exec_driver_sql(f"INSERT INTO store_revision (revision) VALUES ({REVISION})")
    after = max(needed, NEEDED)
    connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{after:04}'")
    return after


def upgrade(connection: Connection, revision: int, to: str = "head") -> None:
    """Run the revisions after `revision` (0 = from nothing) inside the connection's transaction."""
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    if revision:
        command.stamp(config, f"{revision:04}")
    command.upgrade(config, to)
