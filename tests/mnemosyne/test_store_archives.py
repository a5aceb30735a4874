"""An archived session is opened by whatever needs it, and is what it was; the whole contract holds for it."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import psycopg
import pytest
from anyio import to_thread
from postgres_server import own_tenant, running_server

from mnemosyne import (
    Author,
    AuthorKind,
    Erasure,
    PostgresStore,
    SqliteStore,
    Store,
    VersionConflictError,
    open_store,
)
from mnemosyne.core.errors import DamagedRecordError, LeaseLostError, SessionExistsError
from mnemosyne.protocols import SessionLimit, StoreUpkeep
from mnemosyne.schema.replies import ChunkLimits, ReplyChunk
from mnemosyne.stores.locate import locate_store
from mnemosyne.stores.maintenance.rows import NAMES, reading
from mnemosyne.stores.sql.schema import COLUMNS
from mnemosyne.stores.sqlite.file import SqliteOptions, open_database
from mnemosyne.testing.store import StoreContract
from mnemosyne.testing.stores.samples import (
    AT,
    SCOPE,
    SESSION,
    full_document,
    gold_state,
    imported_turn,
    memory,
    play,
    prepared_turn,
    read_everything,
    start,
    user_message,
)

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
LATER = AT + timedelta(days=30)
_NOT_OPENED = frozenset({"file_faults", "close", "sessions", "outlines", *vars(StoreUpkeep)})
_BY_SCOPE = frozenset(
    {
        "entries",
        "gated_entries",
        "entries_after",
        "entries_before",
        "chain_sizes",
        "chains_written_after",
        "find_exchanges",
    }
)
"""What feeds an index, and the index of exchanges: a turn has opened the session before it reads by scope."""


class _Archiving:
    """Archives all sessions before every call of the Store protocol."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or name in _NOT_OPENED or not hasattr(Store, name) or not callable(found):
            return found

        async def call(*args: Any, **fields: Any) -> Any:
            sessions = super(_Archiving, self).__getattribute__("sessions")
            for session_id in await sessions():
                if name in _BY_SCOPE:
                    await self.open_archived(session_id)  # type: ignore[attr-defined]
                else:
                    await self.archive(session_id, at=LATER)  # type: ignore[attr-defined]
            return await found(*args, **fields)

        return call


class ArchivingSqliteStore(_Archiving, SqliteStore):
    pass


class ArchivingPostgresStore(_Archiving, PostgresStore):
    pass


class TestArchivingSqliteStore(StoreContract):
    async def make_store(self, folder: Path, tenant: str = "default") -> Store:
        return ArchivingSqliteStore(folder / "store.db", tenant=tenant)


@pytest.mark.usefixtures("postgres_server")
class TestArchivingPostgresStore(StoreContract):
    async def make_store(self, folder: Path, tenant: str = "default") -> Store:
        return ArchivingPostgresStore(running_server().url("contract"), tenant=own_tenant(folder, tenant))


@pytest.fixture(params=["sqlite", "postgres"])
def address(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    return request.getfixturevalue("postgres_server").url(tmp_path)


@pytest.fixture
async def store(address):
    opened = open_store(address)
    yield opened
    await opened.close()


def read_rows(address: str) -> dict[str, list[tuple[Any, ...]]]:
    with reading(locate_store(address)) as rows:
        return {
            table: sorted(
                (tuple(row) for row in rows.connection.execute(f"SELECT {', '.join(COLUMNS[table])} FROM {table}")),
                key=repr,
            )
            for table in NAMES
        }


async def rows_of(address: str) -> dict[str, list[tuple[Any, ...]]]:
    return await to_thread.run_sync(read_rows, address)


def change_rows(address: str, sql: str) -> None:
    location = locate_store(address)
    if location.postgres is None:
        with closing(sqlite3.connect(location.database, isolation_level=None)) as connection:
            connection.execute(sql)
        return
    with psycopg.connect(location.postgres.conninfo, autocommit=True) as connection:
        connection.execute(f"SET search_path = {location.postgres.schema}")
        connection.execute(sql)


async def change(address: str, sql: str) -> None:
    await to_thread.run_sync(change_rows, address, sql)


async def fill(store: Any) -> None:
    await store.put_session(SESSION, full_document())
    await play(store, "t1", 1)
    head = await store.head(SESSION)
    large = {"text": "a long prompt " * 500}
    await store.save_prepared(prepared_turn(head, "t2", prompt=large, receipt=large), expected_version=head.version)
    await store.append_entries(SESSION, [memory("e1", turn_id="t1"), memory("kept", turn_id="t1", viewers=("ann",))])
    await store.create_session(start(imported_turn("p1"), session_id="other"))


async def test_every_row_comes_back_as_it_was(store, address):
    await fill(store)
    before = await rows_of(address)
    read = await read_everything(store)
    archived = await store.archive(SESSION, at=LATER)
    assert archived is not None
    assert archived.active_at == AT
    gone = await rows_of(address)
    assert {table for table, rows in gone.items() if rows != before[table]} >= {
        "turns",
        "messages",
        "entries",
        "papers",
    }
    assert await store.archive(SESSION, at=LATER) is None
    assert await store.archived_sessions() == (replace(archived, archived_at=LATER),)
    assert await store.open_archived(SESSION)
    assert not await store.open_archived(SESSION)
    assert await rows_of(address) == before
    assert await read_everything(store) == read


async def test_heads_and_searches_do_not_open_it(store):
    await fill(store)
    head, branches = await store.head(SESSION), await store.branches(SESSION)
    await store.archive(SESSION, at=LATER)
    assert (await store.head(SESSION), await store.branches(SESSION)) == (head, branches)
    assert await store.find_text(["reply t1"]) == (f"messages/{SESSION}/t1.a",)
    assert await store.usage() != ()
    assert len(await store.archived_sessions()) == 1
    await store.check_archive(SESSION)


async def test_a_changed_session_is_not_archived(store):
    await fill(store)
    with pytest.raises(VersionConflictError):
        await store.archive(SESSION, at=LATER, expected_version=1)
    assert await store.archived_sessions() == ()


async def test_evidence_that_will_expire_keeps_a_session_open(store):
    await fill(store)
    (found, *_) = await store.list_evidences(SESSION)
    await store.put_evidence(SESSION, replace(found, created_at=AT, expires_at=LATER))
    assert await store.archive(SESSION, at=LATER) is None


async def test_what_a_user_wrote_is_erased_in_an_archive(store):
    said = user_message("a secret about the red lantern", author=Author(kind=AuthorKind.USER, id="lin"))
    turn = replace(imported_turn("p1"), messages=(said,))
    await store.create_session(start(turn, session_id="a"))
    await store.create_session(start(imported_turn("p2"), session_id="b"))
    for session_id in ("a", "b"):
        await store.archive(session_id, at=LATER)
    preview = await store.preview_erasure(Erasure(at=LATER, user_id="lin"))
    assert preview.touched == ("a",)
    assert [each.session_id for each in await store.archived_sessions()] == ["b"]
    await store.archive("a", at=LATER)
    await store.erase(Erasure(at=LATER, user_id="lin"))
    assert await store.find_text(["a secret about the red lantern"]) == ()


async def test_a_damaged_archive_is_named_and_left(store, address):
    await fill(store)
    await store.archive(SESSION, at=LATER)
    await change(address, "UPDATE archive_parts SET body = (SELECT heads FROM archives)")
    with pytest.raises(DamagedRecordError, match=f"archive of session '{SESSION}'"):
        await store.window(SESSION, message_limit=1)
    with pytest.raises(DamagedRecordError):
        await store.check_archive(SESSION)
    assert len(await store.archived_sessions()) == 1


async def test_idle_sessions_are_found_page_by_page(store):
    for number in range(5):
        await store.create_session(start(imported_turn("p1"), session_id=f"s{number}"))
    page = await store.idle_sessions(LATER, limit=3)
    assert [each.session_id for each in page.items] == ["s0", "s1", "s2"]
    rest = await store.idle_sessions(LATER, after=page.next, limit=3)
    assert ([each.session_id for each in rest.items], rest.next) == (["s3", "s4"], None)
    assert (await store.idle_sessions(AT)).items == ()


async def test_one_holds_a_lease_and_a_lost_one_writes_nothing(store, address):
    await fill(store)
    first = await store.acquire_lease("work", "a", 60)
    assert first is not None
    assert await store.acquire_lease("work", "b", 60) is None
    again = await store.acquire_lease("work", "a", 60)
    assert (again.token, again.until >= first.until) == (first.token, True)
    await change(address, "UPDATE leases SET until_us = 1")
    second = await store.acquire_lease("work", "b", 60)
    assert second.token == first.token + 1
    with pytest.raises(LeaseLostError):
        await store.archive(SESSION, at=LATER, lease=first)
    assert await store.archived_sessions() == ()
    assert await store.archive(SESSION, at=LATER, lease=second)
    await store.release_lease(first)
    assert [each.holder for each in await store.leases()] == ["b"]
    await store.release_lease(second)
    assert await store.leases() == ()


async def test_hosts_that_begin_sessions_at_once_keep_the_limit_together(address):
    class FullError(Exception):
        pass

    hosts = [open_store(address) for _ in range(4)]
    begun: list[str] = []

    async def begin(host: Store, name: str) -> None:
        try:
            if name.startswith("d"):
                await host.put_session(name, full_document(name), expected_version=None)
            else:
                await host.create_session(replace(start(), session_id=name))
            begun.append(name)
        except FullError:
            pass

    assert await hosts[0].sessions() == ()
    for host in hosts:
        host.limit_sessions(SessionLimit(3, FullError))
    async with anyio.create_task_group() as tasks:
        for number, host in enumerate(hosts):
            for kind in "cd":
                tasks.start_soon(begin, host, f"{kind}{number}")
    assert len(begun) == 3
    assert sorted(await hosts[0].sessions()) == sorted(begun)
    # A session that is there is no other one.
    (first, *_) = await hosts[1].sessions()
    with pytest.raises(SessionExistsError):
        await hosts[1].create_session(replace(start(), session_id=first))
    hosts[1].limit_sessions(None)
    await begin(hosts[1], "c9")
    assert len(begun) == 4
    for host in hosts:
        await host.close()


async def test_figures_and_abandoned_turns(store):
    await fill(store)
    head = await store.head(SESSION)
    pending = replace(prepared_turn(head, "t3"), parent_id=head.turn_id)
    await store.save_prepared(pending, expected_version=head.version)
    assert await store.drop_abandoned(AT) == 0
    assert await store.drop_abandoned(LATER) == 1
    chunk = ReplyChunk(turn_id="t3", message_id="", index=0, text="half a rep", at=AT)
    await store.add_chunk(SESSION, chunk, ChunkLimits(chars=1_000, replies=8, expired_before=AT))
    assert await store.drop_abandoned(AT) == 0
    assert (await store.unfinished_reply(SESSION, "t3", "")).chunks == {0: "half a rep"}
    assert await store.drop_abandoned(LATER) == 1
    assert await store.unfinished_reply(SESSION, "t3", "") is None
    usage = await store.usage()
    assert (usage.sessions, usage.archived, usage.entries) == (2, 0, 2)
    assert usage.stored_bytes > 1_000
    assert (await store.count_entries(9), await store.count_entries(1)) == (2, 1)
    assert await store.tenants() == ("default",)


def test_the_columns_are_those_of_the_tables(tmp_path):
    connection = open_database(SqliteOptions(path=tmp_path / "s.db"))
    for table, columns in COLUMNS.items():
        found = connection.execute("SELECT name FROM pragma_table_info(?) ORDER BY cid", (table,)).fetchall()
        assert tuple(name for (name,) in found) == columns, table
    connection.close()


async def test_entries_are_out_of_the_index_feed_until_it_is_opened(store):
    await fill(store)
    await store.archive(SESSION, at=LATER)
    assert await store.entries(SCOPE, ("e1",)) == ()
    await store.window(SESSION, message_limit=1)
    assert [each.entry_id for each in await store.entries(SCOPE, ("e1",))] == ["e1"]


async def test_turns_and_archives_at_once_lose_nothing(store, address):
    await store.create_session(start(imported_turn("p1")))
    other = open_store(address)
    playing = anyio.Event()

    async def play_turns() -> None:
        for number in range(15):
            await play(store, f"t{number}", number)
        playing.set()

    async def archive_always() -> None:
        while not playing.is_set():
            await other.archive(SESSION, at=LATER)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(play_turns)
        tasks.start_soon(archive_always)
    window = await other.window(SESSION, message_limit=100)
    await other.close()
    assert window.head.depth == 16
    assert [each.message.content for each in window.messages][-1] == "reply t14"
    assert window.state == gold_state(14)


ARCHIVER = """
import sys, anyio
from datetime import UTC, datetime
from mnemosyne import open_store
async def main():
    store = open_store(sys.argv[1])
    print("ready", flush=True)
    while True:
        for name in await store.sessions():
            await store.archive(name, at=datetime.now(UTC))
            await store.open_archived(name)
anyio.run(main)
"""


async def read_all(address: str) -> list[Any]:
    opened = open_store(address)
    found = [await read_everything(opened, name) for name in await opened.sessions()]
    await opened.close()
    return found


async def make_some(address: str) -> None:
    opened = open_store(address)
    for name in ("a", "b", "c"):
        turns = [imported_turn(f"p{number}", "a long talk about the well " * 20) for number in range(40)]
        await opened.create_session(start(*turns, session_id=name))
    await opened.close()


def test_a_process_that_is_killed_while_it_archives_leaves_every_session_whole(address):
    anyio.run(make_some, address)
    before = anyio.run(read_all, address)
    chance = random.Random(5)
    for _ in range(6):
        process = subprocess.Popen([sys.executable, "-c", ARCHIVER, address], stdout=subprocess.PIPE, cwd=ROOT)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.random() * 0.3)
        process.kill()
        process.communicate()
        assert anyio.run(read_all, address) == before
