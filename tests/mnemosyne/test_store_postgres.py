"""What the PostgreSQL store says when the server is away, locked or closed to it, and how it behaves among others."""

from __future__ import annotations

import subprocess
import sys
import traceback
from dataclasses import replace
from pathlib import Path

import anyio
import psycopg
import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import Chain, Erasure, PostgresStore, StoreError, StoreUnavailableError, VersionConflictError
from mnemosyne.core.errors import CommitUnknownError, StoreBusyError
from mnemosyne.stores.locate import postgres_address
from mnemosyne.stores.postgres.connection import PostgresConnection, escape_nul, unescape_nul
from mnemosyne.stores.postgres.database import PostgresOptions, open_driver
from mnemosyne.stores.sql.reading import entries as sql_recall
from mnemosyne.stores.sql.reading import turns as sql_turns
from mnemosyne.stores.sql.reading import window as sql_window
from mnemosyne.testing.stores.samples import (
    AT,
    SCOPE,
    SESSION,
    evidence,
    gold_commit,
    imported_turn,
    memory,
    play,
    prepared_turn,
    read_everything,
    start,
)

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def store(postgres_url):
    store = PostgresStore(postgres_url, busy_seconds=0.2)
    await store.create_session(start(imported_turn("p001")))
    yield store
    await store.close()


@pytest.fixture
def admin(postgres_url):
    """A connection of the server's owner that sees the store's tables."""
    address = postgres_address(postgres_url)
    with psycopg.connect(address.conninfo, autocommit=True) as connection:
        connection.execute(f"SET search_path = {address.schema}")
        yield connection


async def test_a_session_that_another_holds_is_said_to_be_locked_and_can_still_be_read(store, admin):
    before = await read_everything(store)
    await store.create_session(start(session_id="s2"))
    admin.execute("BEGIN")
    admin.execute("SELECT 1 FROM sessions WHERE session_id = 's1' FOR UPDATE")
    with pytest.raises(StoreBusyError, match=r"stayed locked by another process for 0\.2 s"):
        await play(store, "t1")
    assert (await store.append_turns("s2", (imported_turn("p001"),))).depth == 1
    assert (await read_everything(store))[:4] == before[:4]
    admin.execute("ROLLBACK")
    assert (await play(store, "t1")).turn_id == "t1"


async def test_a_connection_that_died_is_replaced(store, admin):
    await store.head(SESSION)
    admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'jacquard'")
    assert (await play(store, "t1")).depth == 2
    assert (await store.head(SESSION)).depth == 2


async def test_a_connection_that_dies_in_the_middle_leaves_nothing(store, admin):
    admin.execute(
        """CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
            $$BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END$$"""
    )
    admin.execute("CREATE TRIGGER die AFTER INSERT ON messages FOR EACH ROW EXECUTE FUNCTION die()")
    before = await read_everything(store)
    with pytest.raises(StoreUnavailableError, match="the server cannot be reached"):
        await play(store, "t1")
    admin.execute("DROP TRIGGER die ON messages")
    assert (await read_everything(store))[0][0].depth == before[0][0].depth
    head = await store.head(SESSION)
    assert (await store.commit_turn(SESSION, gold_commit("t1", 1), expected_version=head.version)).turn_id == "t1"


async def test_a_connection_that_dies_in_a_commit_leaves_the_question_open(store, admin):
    admin.execute(
        """CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
            $$BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END$$"""
    )
    admin.execute(
        """CREATE CONSTRAINT TRIGGER die AFTER INSERT ON messages DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION die()"""
    )
    with pytest.raises(CommitUnknownError, match="all of it was written, or nothing"):
        await store.append_turns(SESSION, (imported_turn("p002"),))
    admin.execute("DROP TRIGGER die ON messages")
    assert (await store.append_turns(SESSION, (imported_turn("p002"),))).depth == 2
    assert (await store.append_turns(SESSION, (imported_turn("p002"),))).depth == 2


async def test_a_user_who_may_not_write_is_told_so(store, admin, postgres_url):
    schema = postgres_address(postgres_url).schema
    admin.execute("DROP ROLE IF EXISTS reader")
    admin.execute("CREATE ROLE reader LOGIN PASSWORD 's3cret'")
    admin.execute(f"GRANT USAGE ON SCHEMA {schema} TO reader")
    admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader")
    reading = PostgresStore(postgres_url.replace("postgres@", "reader:s3cret@", 1))
    assert (await reading.head(SESSION)).depth == 1
    before = await read_everything(store)
    with pytest.raises(StoreUnavailableError, match="this user may not do that") as caught:
        await reading.append_turns(SESSION, (imported_turn("p002"),))
    assert "reader:***@" in str(caught.value)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))
    await reading.close()
    assert await read_everything(store) == before
    elsewhere = PostgresStore(postgres_url.replace("postgres@", "reader:s3cret@", 1).replace("schema=", "schema=x"))
    with pytest.raises(StoreUnavailableError, match="this user may not do that"):
        await elsewhere.sessions()
    await elsewhere.close()
    admin.execute("DROP OWNED BY reader")
    admin.execute("DROP ROLE reader")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://u:s3cret@/db?host=/nowhere/at/all", "cannot be reached"),
        ("postgresql://u:s3cret@127.0.0.1:1/db", "cannot be reached"),
        ("postgresql://u:s3cret@127.0.0.1:1/db?colour=red", "cannot be read"),
        ("postgresql://u:s3cret@[127.0.0.1/db", "cannot be read"),
        ("postgresql://u:%zz-s3cret@127.0.0.1/db", "cannot be read"),
        ("postgresql://u@127.0.0.1:1/db?password=s3cret&colour=red", "cannot be read"),
    ],
)
async def test_a_server_that_is_not_there_is_reported_without_the_password(url, reason):
    store = PostgresStore(url)
    with pytest.raises(StoreUnavailableError, match=reason) as caught:
        await store.sessions()
    told = "".join(traceback.format_exception(caught.value)) + repr(store) + repr(vars(store)) + repr(caught.value.args)
    assert "s3cret" not in told
    assert "***" in str(caught.value)
    await store.close()


async def test_a_closed_store_says_so(store):
    await store.close()
    await store.close()
    with pytest.raises(StoreUnavailableError, match="closed"):
        await store.sessions()


async def test_an_id_that_cannot_be_kept_is_refused(store):
    with pytest.raises(StoreError, match="cannot be an id"):
        await store.head("\ud800")
    with pytest.raises(StoreError, match="cannot be an id"):
        await store.append_turns(SESSION, (imported_turn("\udcff"),))
    noise = "".join(chr(33 + (place * place) % 8999) for place in range(9000))
    with pytest.raises(StoreError, match="too long"):
        await store.append_turns(SESSION, (imported_turn(noise),))
    assert (await store.head(SESSION)).depth == 1


async def test_nul_comes_back_wherever_it_was_said(store):
    """PostgreSQL's text holds no NUL; ids and names that have one are kept all the same, and found, and in order."""
    ids = ["a\0b", "a\1b", "a\0\1b", "a\1\1b", "a\2b", "ab", "\0", "\1", "\1\0"]
    for session_id in ids:
        await store.create_session(start(imported_turn("p\0", f"{session_id} said"), session_id=session_id))
    assert await store.sessions() == tuple(sorted([*ids, SESSION]))
    for session_id in ids:
        window = await store.window(session_id, message_limit=9)
        assert window.head.session_id == session_id
        assert window.head.turn_id == "p\0"
        assert window.messages[0].message.content == f"ask {session_id} said"
        assert window.messages[0].message.message_id == "p\0.u"
    await store.append_turns(SESSION, (imported_turn("p002"),), (memory("e\0", text="t\0xt"),))
    assert [entry.text for entry in await store.entries(SCOPE, ("e\0",))] == ["t\0xt"]
    await store.put_evidence(SESSION, evidence("ev\0", "c\0ntent"))
    assert (await store.get_evidence(SESSION, "ev\0")).content == "c\0ntent"
    assert await store.find_text(("c\0ntent",)) == ("evidences/s1/ev\0",)
    await store.fork(SESSION, "p001", "b\0")
    assert (await store.head(SESSION)).branch_id == "b\0"
    outcome = await store.erase(Erasure(session_id="a\0b", at=AT, reason="asked\0"))
    assert outcome.sessions == ("a\0b",)
    assert (await store.audits())[-1].reason == "asked\0"
    other = PostgresStore(store.shown, tenant="t\0")
    assert await other.sessions() == ()
    await other.close()


@given(st.text("\0\1\2ab", max_size=8), st.text("\0\1\2ab", max_size=8))
def test_escaping_keeps_texts_apart_and_in_order(one, other):
    assert unescape_nul(escape_nul(one)) == one
    assert "\0" not in escape_nul(one)
    assert (escape_nul(one) < escape_nul(other)) == (one < other)


async def test_a_record_that_does_not_follow_the_head_is_refused(store):
    head = await store.head(SESSION)
    with pytest.raises(ValueError, match="Build the record from the head"):
        await store.save_prepared(replace(prepared_turn(head, "t1"), depth=7), expected_version=head.version)
    assert await store.head(SESSION) == head


async def test_no_call_blocks_the_event_loop(postgres_url):
    with blockbuster_ctx():
        store = PostgresStore(postgres_url)
        await store.create_session(start(imported_turn("p001")))
        await play(store, "t1", 4)
        await store.fork(SESSION, "p001", "b")
        await store.window(SESSION, message_limit=9)
        await read_everything(store)
        await store.close()


async def test_a_cancelled_caller_leaves_nothing_or_a_whole_turn(store):
    for number in range(60):
        head = await store.head(SESSION)
        record = prepared_turn(head, f"t{number}", "x" * 20_000)
        with anyio.move_on_after(number * 0.0002):
            saved = await store.save_prepared(record, expected_version=head.version)
            await store.commit_turn(SESSION, gold_commit(record.turn_id, number), expected_version=saved.version)
        turns = await store.turns(SESSION, limit=1000)
        window = await store.window(SESSION, message_limit=1000)
        assert len(window.messages) == 2 * len(turns)
        assert window.pending is None or len(window.pending.messages) == 1
        assert window.state == await store.state_at(SESSION, window.head.turn_id)


async def test_many_stores_on_one_database_each_write_once(postgres_url):
    stores = [PostgresStore(postgres_url) for _ in range(4)]
    await stores[0].create_session(start())
    conflicts = 0

    async def write(store: PostgresStore, name: str) -> None:
        nonlocal conflicts
        written = 0
        while written < 10:
            head = await store.head(SESSION)
            try:
                record = prepared_turn(head, f"{name}.{written}")
                await store.commit_numerical(record, {"hero": {"gold": head.depth}}, expected_version=head.version)
            except VersionConflictError:
                conflicts += 1
            else:
                written += 1

    async with anyio.create_task_group() as tasks:
        for number, store in enumerate(stores):
            tasks.start_soon(write, store, f"w{number}")
    turns = await stores[0].turns(SESSION, limit=1000)
    assert sorted(turn.turn_id for turn in turns) == sorted(f"w{w}.{n}" for w in range(4) for n in range(10))
    assert [turn.depth for turn in turns] == list(range(1, 41))
    assert conflicts > 0
    for store in stores:
        await store.close()


async def test_writes_to_different_sessions_do_not_wait_for_each_other(postgres_url, admin):
    store = PostgresStore(postgres_url, busy_seconds=30)
    for name in ("s1", "s2"):
        await store.create_session(start(session_id=name))
    admin.execute("BEGIN")
    admin.execute("SELECT 1 FROM sessions WHERE session_id = 's1' FOR UPDATE")
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.append_turns, "s1", (imported_turn("p001"),))
            await anyio.sleep(0.05)
            for number in range(5):
                await store.append_turns("s2", (imported_turn(f"p{number}"),))
            assert (await store.head("s1")).depth == 0
            admin.execute("ROLLBACK")
    assert (await store.head("s1")).depth == 1
    await store.close()


class Watching(PostgresConnection):
    """A connection that remembers what it was asked."""

    def __init__(self, *given):
        super().__init__(*given)
        self.seen = []

    def execute(self, sql, parameters=()):
        if not sql.startswith("EXPLAIN"):
            self.seen.append((sql, parameters))
        return super().execute(sql, parameters)


async def test_every_read_of_a_turn_uses_an_index(store, postgres_url):
    """Rule 5, by PostgreSQL's own word: where it need not scan or sort a table, it does not."""
    await play(store, "t1", 3)
    await store.fork(SESSION, "p001", "b")
    await store.replace_world("w1", "d", ())
    assert await anyio.to_thread.run_sync(check_plans, postgres_url) > 12


def check_plans(url: str) -> int:
    """Check that no read of a turn scans or sorts a table; returns how many statements there were."""
    driver = open_driver(PostgresOptions(address=postgres_address(url)))
    db = Watching(driver, "default", "")
    sql_window.read_window(db, SESSION, 40, "main")
    sql_turns.read_turns(db, SESSION, 3, None, None)
    sql_turns.read_turn(db, SESSION, "t1")
    sql_turns.read_state(db, SESSION, "t1")
    sql_recall.read_entries(db, SCOPE, ("a", "b"))
    sql_recall.read_gated_entries(db, (SCOPE, "world:w1"))
    sql_recall.read_entries_after(db, SCOPE, Chain.HISTORY, 0, 5)
    sql_recall.read_entries_after(db, SCOPE, Chain.EVENT, 0, 5)
    sql_recall.read_chains_written_after(db, {(SCOPE, Chain.HISTORY): 0, ("world:w1", Chain.LORE): 0})
    for sql, parameters in db.seen:
        plan = [row[0] for row in db.execute(f"EXPLAIN {sql}", parameters)]
        assert not any("Seq Scan" in step for step in plan), (sql, plan)
        if "ORDER BY path.place" not in sql and "scope IN" not in sql:
            assert not any("Sort" in step for step in plan), (sql, plan)
    driver.close()
    return len(db.seen)


def test_the_driver_is_only_imported_for_an_address_that_names_it():
    script = """
import sys
from mnemosyne import open_store
open_store("memory:"), open_store("sqlite:///a.db"), open_store("file:///a")
assert not [name for name in sys.modules if name.split(".")[0] in ("psycopg",)]
sys.modules["psycopg"] = None
try:
    open_store("postgresql://u:s3cret@db/games")
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "StoreUnavailableError postgresql://u:***@db/games cannot be used: PostgreSQL needs psycopg" in done.stdout
    assert 'pip install ".[postgres]"' in done.stdout
    assert "s3cret" not in done.stdout
