"""How the tables of a PostgreSQL store come to be, are recognised, and are brought up to date."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from anyio import to_thread
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from mnemosyne import PostgresStore, SqliteStore, StoreUnavailableError, postgres_address
from mnemosyne.stores.migrations.migrate import upgrade
from mnemosyne.stores.postgres.database import PostgresOptions, mark_statement, open_driver
from mnemosyne.stores.sql.schema import NEEDED, REVISION
from mnemosyne.testing.stores.samples import SCOPE, SESSION, gold_state, imported_turn, play, read_everything, start

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
VERSION_1 = Path(__file__).with_name("store_version_1.sql")
TABLES_1 = (
    "sessions",
    "branches",
    "branch_states",
    "snapshots",
    "turns",
    "papers",
    "messages",
    "entries",
    "prefetches",
    "worlds",
)


def connect(url: str) -> psycopg.Connection:
    """Return a plain connection of the server's owner that sees the schema of the store, there or not."""
    address = postgres_address(url)
    connection = psycopg.connect(address.conninfo, autocommit=True)
    connection.execute(f"SET search_path = {address.schema}")
    return connection


@pytest.fixture
def old_file(tmp_path):
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1.read_text(encoding="utf-8"))
    connection.close()
    return path


def make_first(url: str, source: Path | None) -> None:
    """Make the tables of revision 0001, with the rows of a file of that release."""
    schema = postgres_address(url).schema
    with connect(url) as admin:
        admin.execute(f"CREATE SCHEMA {schema}")

    def driver() -> psycopg.Connection:
        connection = connect(url)
        connection.autocommit = False
        return connection

    engine = create_engine("postgresql+psycopg://", creator=driver, poolclass=NullPool)
    with engine.begin() as connection:
        upgrade(connection, 0, "0001")
        for mark in mark_statement():
            connection.exec_driver_sql(mark)
    engine.dispose()
    if source is None:
        return
    old = sqlite3.connect(source)
    with connect(url) as admin, admin.cursor() as cursor:
        for table in TABLES_1:
            rows = old.execute(f"SELECT * FROM {table}")
            columns = [f'"{each[0]}"' for each in rows.description]
            marks_of = ", ".join(["%s"] * len(columns))
            cursor.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks_of})", rows.fetchall())
        for table in ("messages", "entries"):
            (last,) = old.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
            cursor.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'seq'), {last})")
    old.close()


def shape(url: str) -> dict[str, list[tuple]]:
    """Return columns, constraints, indexes and comments of a schema, as PostgreSQL tells them."""
    schema = postgres_address(url).schema
    with connect(url) as admin:
        columns = admin.execute(
            """SELECT table_name, column_name, ordinal_position, data_type, collation_name, is_nullable, is_identity,
                identity_generation, column_default, character_maximum_length FROM information_schema.columns
                WHERE table_schema = %s ORDER BY 1, 3""",
            (schema,),
        ).fetchall()
        indexes = admin.execute(
            "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = %s ORDER BY 1, 2", (schema,)
        ).fetchall()
        constraints = admin.execute(
            """SELECT c.relname, k.conname, pg_get_constraintdef(k.oid) FROM pg_constraint AS k
                JOIN pg_class AS c ON c.oid = k.conrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
                WHERE n.nspname = %s ORDER BY 1, 2""",
            (schema,),
        ).fetchall()
        others = admin.execute(
            """SELECT c.relname, c.relkind::text, obj_description(c.oid, 'pg_class') FROM pg_class AS c
                JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = %s ORDER BY 1""",
            (schema,),
        ).fetchall()
    found = {"columns": columns, "indexes": indexes, "constraints": constraints, "others": others}
    return {
        kind: [tuple(str(cell).replace(schema, "") for cell in row) for row in rows] for kind, rows in found.items()
    }


def test_migrated_tables_are_like_new_ones(postgres_server, tmp_path):
    new, old = postgres_server.url(tmp_path / "new"), postgres_server.url(tmp_path / "old")
    open_driver(PostgresOptions(address=postgres_address(new))).close()
    make_first(old, None)
    open_driver(PostgresOptions(address=postgres_address(old))).close()
    before, after = shape(new), shape(old)
    for kind, rows in before.items():
        assert after[kind] == rows, kind
    with connect(old) as admin:
        assert admin.execute("SELECT version_num FROM alembic_version").fetchall() == [(f"{NEEDED:04}",)]
        assert admin.execute("SELECT revision FROM store_revision").fetchall() == [(REVISION,)]


async def test_what_the_first_release_held_is_all_there(postgres_url, old_file):
    await to_thread.run_sync(make_first, postgres_url, old_file)
    old, new = SqliteStore(old_file), PostgresStore(postgres_url)
    for session_id in ("s0", SESSION):
        assert await read_everything(new, session_id) == await read_everything(old, session_id)
    for turn_id in (None, "t1", "t49", "t50", "t55", "b1"):
        assert await new.state_at(SESSION, turn_id) == await old.state_at(SESSION, turn_id)
    assert await new.gated_entries((SCOPE,)) == await old.gated_entries((SCOPE,))
    for store in (old, new):
        await store.switch(SESSION, "main")
        await play(store, "t56", 56)
        assert await store.state_at(SESSION, "t56") == gold_state(56)
    assert await read_everything(new) == await read_everything(old)
    with connect(postgres_url) as admin:
        assert admin.execute("SELECT count(*) FROM turns WHERE number > 58").fetchone()[0] > 0
    await old.close()
    await new.close()


OPENER = """
import sys
import anyio
from mnemosyne.stores.postgres.store import PostgresStore
from mnemosyne.testing.stores.samples import imported_turn, start
async def main():
    store = PostgresStore(sys.argv[1], busy_seconds=60)
    for number in range(int(sys.argv[3])):
        await store.create_session(start(imported_turn("p001"), session_id=f"{sys.argv[2]}.{number}"))
    print(len(await store.sessions()))
    await store.close()
anyio.run(main)
"""


def open_at_once(url: str, sessions: int) -> list[int]:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", OPENER, url, str(number), str(sessions)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for number in range(2)
    ]
    seen = []
    for process in running:
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        seen.append(int(out))
    return seen


async def test_processes_that_open_a_new_database_at_once_make_it_once(postgres_url):
    assert max(await to_thread.run_sync(open_at_once, postgres_url, 10)) == 20
    store = PostgresStore(postgres_url)
    assert len(await store.sessions()) == 20
    await store.close()


async def test_processes_that_find_an_old_one_at_once_migrate_it_once(postgres_url, old_file):
    await to_thread.run_sync(make_first, postgres_url, old_file)
    assert await to_thread.run_sync(open_at_once, postgres_url, 0) == [2, 2]


async def test_a_migration_that_fails_changes_nothing(postgres_url, old_file):
    await to_thread.run_sync(make_first, postgres_url, old_file)
    with connect(postgres_url) as admin:
        admin.execute("CREATE TABLE audits (in_the_way TEXT)")
    before = shape(postgres_url)
    store = PostgresStore(postgres_url)
    with pytest.raises(psycopg.Error, match="already exists"):
        await store.sessions()
    await store.close()
    assert shape(postgres_url) == before
    with connect(postgres_url) as admin:
        assert admin.execute("SELECT version_num FROM alembic_version").fetchone() == ("0001",)
        assert admin.execute("SELECT count(*) FROM messages").fetchone() == (118,)


async def test_a_newer_schema_is_refused_and_left_alone(postgres_url):
    store = PostgresStore(postgres_url)
    await store.create_session(start(imported_turn("p001")))
    await store.close()
    with connect(postgres_url) as admin:
        admin.execute("UPDATE alembic_version SET version_num = '0099'")
    later = PostgresStore(postgres_url)
    with pytest.raises(
        StoreUnavailableError, match=rf"newer release .store version 99, this one reads up to {REVISION}"
    ):
        await later.append_turns(SESSION, (imported_turn("p002"),))
    await later.close()
    with connect(postgres_url) as admin:
        assert admin.execute("SELECT count(*) FROM turns").fetchone() == (1,)


async def test_another_programs_schema_is_left_alone(postgres_url):
    schema = postgres_address(postgres_url).schema
    with connect(postgres_url) as admin:
        admin.execute(f"CREATE SCHEMA {schema}")
        admin.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        admin.execute("CREATE TABLE sessions (cookie TEXT)")
    before = shape(postgres_url)
    store = PostgresStore(postgres_url)
    with pytest.raises(StoreUnavailableError, match=r"tables of another program; name another by \?schema=NAME"):
        await store.create_session(start())
    await store.close()
    assert shape(postgres_url) == before


async def test_an_empty_schema_that_is_there_is_used(postgres_url):
    schema = postgres_address(postgres_url).schema
    with connect(postgres_url) as admin:
        admin.execute(f"CREATE SCHEMA {schema}")
    store = PostgresStore(postgres_url)
    assert await store.sessions() == ()
    await store.close()


async def test_nothing_is_made_unless_asked(postgres_url):
    store = PostgresStore(postgres_url, create=False)
    with pytest.raises(StoreUnavailableError, match="there is no store in it"):
        await store.sessions()
    await store.close()
    with connect(postgres_url) as admin:
        found = admin.execute(
            "SELECT 1 FROM pg_namespace WHERE nspname = %s", (postgres_address(postgres_url).schema,)
        ).fetchone()
    assert found is None


async def test_a_database_of_other_text_is_refused(postgres_server):
    with psycopg.connect(postgres_server.uri, autocommit=True) as admin:
        admin.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    store = PostgresStore(re.sub(r"/postgres\?", "/latin?", postgres_server.uri))
    with pytest.raises(StoreUnavailableError, match="encoding is not UTF-8"):
        await store.sessions()
    await store.close()
    with psycopg.connect(postgres_server.uri, autocommit=True) as admin:
        admin.execute("DROP DATABASE latin")


async def test_any_name_of_a_schema_is_a_name(postgres_server):
    store = PostgresStore(f"{postgres_server.uri}&schema=my%20%22games%22%3B%20%E6%B8%B8%E6%88%8F")
    await store.create_session(start(imported_turn("p001")))
    assert await store.sessions() == (SESSION,)
    await store.close()
