"""How the tables of a PostgreSQL store come to be and are recognised."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from anyio import to_thread

from mnemosyne import PostgresStore, StoreUnavailableError
from mnemosyne.stores.locate import postgres_address
from mnemosyne.stores.sql.schema import REVISION
from mnemosyne.testing.stores.samples import SESSION, imported_turn, start

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


def connect(url: str) -> psycopg.Connection:
    """Return a plain connection of the server's owner that sees the schema of the store, there or not."""
    address = postgres_address(url)
    connection = psycopg.connect(address.conninfo, autocommit=True)
    connection.execute(f"SET search_path = {address.schema}")
    return connection


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


OPENER = """
import sys
import anyio
from mnemosyne import PostgresStore
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


async def test_a_newer_schema_is_refused_and_left_alone(postgres_url):
    store = PostgresStore(postgres_url)
    await store.create_session(start(imported_turn("p001")))
    await store.close()
    with connect(postgres_url) as admin:
        admin.execute("UPDATE store_revision SET revision = 99")
    later = PostgresStore(postgres_url)
    with pytest.raises(StoreUnavailableError, match=rf"newer release .revision 99, this one reads {REVISION}"):
        await later.append_turns(SESSION, (imported_turn("p002"),))
    await later.close()
    with connect(postgres_url) as admin:
        assert admin.execute("SELECT count(*) FROM turns").fetchone() == (1,)


async def test_another_programs_schema_is_left_alone(postgres_url):
    schema = postgres_address(postgres_url).schema
    with connect(postgres_url) as admin:
        admin.execute(f"CREATE SCHEMA {schema}")
        admin.execute("CREATE TABLE store_revision (revision BIGINT NOT NULL)")
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
