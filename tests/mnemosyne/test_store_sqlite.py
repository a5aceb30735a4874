"""What the SQLite store says when the file is locked, full, foreign or gone, and how it behaves among others."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from blockbuster import blockbuster_ctx

from mnemosyne import Chain, SqliteStore, StoreError, StoreUnavailableError, VersionConflictError
from mnemosyne.core.errors import StoreBusyError
from mnemosyne.stores.sql.reading import entries as sql_recall
from mnemosyne.stores.sql.reading import turns as sql_turns
from mnemosyne.stores.sql.reading import window as sql_window
from mnemosyne.stores.sql.schema import REVISION
from mnemosyne.stores.sqlite.file import SqliteConnection, SqliteOptions, open_database
from mnemosyne.testing.stores.samples import (
    SCOPE,
    SESSION,
    gold_commit,
    imported_turn,
    play,
    prepared_turn,
    read_everything,
    start,
)

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def store(tmp_path):
    store = SqliteStore(tmp_path / "deep" / "store.db", busy_seconds=0.2)
    await store.create_session(start(imported_turn("p001")))
    yield store
    await store.close()


async def test_a_locked_file_is_said_to_be_locked_and_can_still_be_read(store):
    before = await read_everything(store)
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    began = time.monotonic()
    with pytest.raises(StoreBusyError, match=r"store\.db stayed locked by another process for 0\.2 s"):
        await play(store, "t1")
    assert 0.1 < time.monotonic() - began < 2
    assert await read_everything(store) == before
    other.execute("ROLLBACK")
    other.close()
    assert (await play(store, "t1")).turn_id == "t1"


async def test_a_read_does_not_wait_for_a_write_that_waits(store):
    patient = SqliteStore(store.path, busy_seconds=5)
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(patient.append_turns, SESSION, (imported_turn("p002"),))
        await anyio.sleep(0.05)
        with anyio.fail_after(1):
            assert (await patient.head(SESSION)).depth == 1
        other.execute("ROLLBACK")
    assert (await patient.head(SESSION)).depth == 2
    other.close()
    await patient.close()


async def test_a_full_disk_refuses_the_turn_and_keeps_the_rest(tmp_path):
    path = tmp_path / "store.db"
    store = SqliteStore(path, page_limit=80)
    await store.create_session(start(imported_turn("p001")))
    before = await read_everything(store)
    big = imported_turn("p002", "x" * 400_000)
    with pytest.raises(StoreUnavailableError, match=r"store\.db cannot be used: the disk or the size limit is full"):
        await store.append_turns(SESSION, (big,))
    assert await read_everything(store) == before
    assert (await play(store, "t1")).depth == 2
    await store.close()


FILE_LIMIT = """
import resource, signal, sys
from pathlib import Path
import anyio
from mnemosyne import StoreUnavailableError
from mnemosyne import SqliteStore
from mnemosyne.testing.stores.samples import SESSION, imported_turn
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
async def main():
    store = SqliteStore(Path(sys.argv[1]))
    try:
        await store.append_turns(SESSION, (imported_turn("p002", "x" * 400_000),))
    except StoreUnavailableError as error:
        print(error)
    print((await store.head(SESSION)).depth)
    await store.close()
anyio.run(main)
"""

READ_ONLY = """
import os, sys
from pathlib import Path
import anyio
from mnemosyne import StoreUnavailableError
from mnemosyne import SqliteStore
from mnemosyne.testing.stores.samples import SESSION, imported_turn
async def main():
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    store = SqliteStore(Path(sys.argv[1]))
    try:
        await store.append_turns(SESSION, (imported_turn("p002"),))
    except StoreUnavailableError as error:
        print(error)
    await store.close()
anyio.run(main)
"""


def run_script(script: str, path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-B", "-c", script, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_disk_that_takes_no_more_is_reported(store):
    await store.close()
    said = run_script(FILE_LIMIT, store.path)
    assert "cannot be used: " in said
    assert "Nothing was written" in said
    assert said.splitlines()[-1] == "1"


async def test_a_file_that_may_not_be_written_is_reported():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        store = SqliteStore(path)
        await store.create_session(start(imported_turn("p001")))
        await store.close()
        path.chmod(0o444)
        path.parent.chmod(0o555)
        said = run_script(READ_ONLY, path)
        path.parent.chmod(0o755)
    assert f"{path} cannot be used: the file or its folder may not be written" in said


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda path: path.write_bytes(b"no database at all, but long enough to look at" * 50),
            "not a SQLite database",
        ),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.parent.joinpath("store.db-journal").mkdir() or path.write_bytes(b""), "cannot be opened"),
    ],
    ids=["text", "folder", "journal in the way"],
)
async def test_a_path_that_cannot_be_a_store_is_refused(tmp_path, make, reason):
    path = tmp_path / "store.db"
    make(path)
    store = SqliteStore(path)
    with pytest.raises(StoreUnavailableError, match=reason) as caught:
        await store.create_session(start())
    assert caught.value.path == str(path)
    with pytest.raises(StoreUnavailableError):
        await store.sessions()
    await store.close()


async def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = SqliteStore(tmp_path / "file" / "store.db")
    with pytest.raises(StoreUnavailableError, match="its folder cannot be made"):
        await store.sessions()
    await store.close()


async def test_another_programs_database_is_left_alone(tmp_path):
    path = tmp_path / "places.sqlite"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE bookmarks (url TEXT)")
    other.commit()
    other.close()
    before = path.read_bytes()
    store = SqliteStore(path)
    with pytest.raises(StoreUnavailableError, match="another program"):
        await store.create_session(start())
    await store.close()
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["places.sqlite"]


async def test_a_newer_store_is_refused_with_its_version(store):
    await store.close()
    other = sqlite3.connect(store.path)
    other.execute("UPDATE store_revision SET revision = 99")
    other.commit()
    other.close()
    later = SqliteStore(store.path)
    with pytest.raises(StoreUnavailableError, match=f"revision 99, this one reads {REVISION}"):
        await later.sessions()
    await later.close()


@pytest.mark.parametrize(("level", "number"), [("FULL", 2), ("NORMAL", 1)])
def test_a_file_is_written_ahead_and_synchronised_as_asked(tmp_path, level, number):
    connection = open_database(SqliteOptions(path=tmp_path / "store.db", synchronous=level))
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert connection.execute("PRAGMA synchronous").fetchone()[0] == number
    connection.close()


async def test_a_missing_file_is_not_made_unless_asked(tmp_path):
    store = SqliteStore(tmp_path / "store.db", create=False)
    with pytest.raises(StoreUnavailableError, match="no such file"):
        await store.sessions()
    await store.close()
    assert list(tmp_path.iterdir()) == []


async def test_a_closed_store_says_so(store):
    await store.close()
    await store.close()
    with pytest.raises(StoreUnavailableError, match="closed"):
        await store.sessions()


async def test_an_id_that_is_no_text_is_refused(store):
    with pytest.raises(StoreError, match="cannot be an id"):
        await store.head("\ud800")
    with pytest.raises(StoreError, match="cannot be an id"):
        await store.append_turns(SESSION, (imported_turn("\udcff"),))
    assert (await store.head(SESSION)).depth == 1


async def test_a_record_that_does_not_follow_the_head_is_refused(store):
    head = await store.head(SESSION)
    with pytest.raises(ValueError, match="Build the record from the head"):
        await store.save_prepared(replace(prepared_turn(head, "t1"), depth=7), expected_version=head.version)
    assert await store.head(SESSION) == head


async def test_no_call_blocks_the_event_loop(tmp_path):
    with blockbuster_ctx():
        store = SqliteStore(tmp_path / "store.db")
        await store.create_session(start(imported_turn("p001")))
        await play(store, "t1", 4)
        await store.fork(SESSION, "p001", "b")
        await store.window(SESSION, message_limit=9)
        await store.state_at(SESSION, "t1")
        await read_everything(store)
        await store.close()


async def test_a_cancelled_caller_leaves_nothing_or_a_whole_turn(store):
    for number in range(60):
        head = await store.head(SESSION)
        record = prepared_turn(head, f"t{number}", "x" * 20_000)
        with anyio.move_on_after(number * 0.00005):
            saved = await store.save_prepared(record, expected_version=head.version)
            await store.commit_turn(SESSION, gold_commit(record.turn_id, number), expected_version=saved.version)
        turns = await store.turns(SESSION, limit=1000)
        window = await store.window(SESSION, message_limit=1000)
        assert len(window.messages) == 2 * len(turns)
        assert window.pending is None or len(window.pending.messages) == 1
        assert window.state == await store.state_at(SESSION, window.head.turn_id)


async def test_a_cancelled_task_leaves_nothing_or_a_whole_turn(store):
    """The same for a plain asyncio cancellation, which no scope can hold up."""
    for number in range(60):
        await store.save_prefetch(SESSION, None)
        head = await store.head(SESSION)
        turn = imported_turn(f"t{number}", "x" * 20_000)
        task = asyncio.create_task(store.append_turns(SESSION, (turn,)))
        await asyncio.sleep(number * 0.00005)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await store.save_prefetch(SESSION, None)
        after = await store.head(SESSION)
        assert (after.version, after.depth) in ((head.version, head.depth), (head.version + 1, head.depth + 1))
        assert len((await store.window(SESSION, message_limit=1000)).messages) == 2 * after.depth


async def test_many_stores_on_one_file_each_write_once(tmp_path):
    path = tmp_path / "store.db"
    stores = [SqliteStore(path) for _ in range(4)]
    await stores[0].create_session(start())
    conflicts = 0

    async def write(store: SqliteStore, name: str) -> None:
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


async def test_two_processes_open_a_new_file_at_once(tmp_path):
    script = """
import sys
from pathlib import Path
import anyio
from mnemosyne import SqliteStore
from mnemosyne.testing.stores.samples import imported_turn, start
async def main():
    store = SqliteStore(Path(sys.argv[1]))
    for number in range(20):
        await store.create_session(start(imported_turn("p001"), session_id=f"{sys.argv[2]}.{number}"))
    await store.close()
anyio.run(main)
"""
    path = tmp_path / "store.db"
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}

    async def open_it(number: int) -> None:
        command = [sys.executable, "-c", script, str(path), str(number)]
        done = await anyio.run_process(command, check=False, cwd=ROOT, env=environment)
        assert done.returncode == 0, done.stderr.decode()

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(open_it, number)
    store = SqliteStore(path)
    assert len(await store.sessions()) == 60
    await store.close()


def statements_of(path: Path, work) -> list[str]:
    connection = open_database(SqliteOptions(path=path))
    seen: list[str] = []
    connection.set_trace_callback(seen.append)
    work(SqliteConnection(connection, "default"))
    connection.set_trace_callback(None)
    connection.close()
    return seen


async def test_every_read_of_a_turn_uses_an_index(store):
    """Rule 5, by SQLite's own word: nothing on a turn's way scans or sorts a table."""
    await play(store, "t1", 3)
    await store.fork(SESSION, "p001", "b")
    await store.replace_world("w1", "d", ())
    await store.close()
    reads = (
        lambda db: sql_window.read_window(db, SESSION, 40, "main"),
        lambda db: sql_turns.read_turns(db, SESSION, 3, None, None),
        lambda db: sql_turns.read_turn(db, SESSION, "t1"),
        lambda db: sql_turns.read_state(db, SESSION, "t1"),
        lambda db: sql_recall.read_entries(db, SCOPE, ("a", "b")),
        lambda db: sql_recall.read_gated_entries(db, (SCOPE, "world:w1")),
        lambda db: sql_recall.read_entries_after(db, SCOPE, Chain.HISTORY, 0, 5),
        lambda db: sql_recall.read_entries_after(db, SCOPE, Chain.EVENT, 0, 5),
        lambda db: sql_recall.read_chains_written_after(db, {(SCOPE, Chain.HISTORY): 0, ("world:w1", Chain.LORE): 0}),
    )
    assert await anyio.to_thread.run_sync(check_plans, store.path, reads) > 12


def check_plans(path: Path, reads) -> int:
    """Check that no statement of these reads scans or sorts a table; returns how many there were."""
    connection = sqlite3.connect(path)
    checked = 0
    for work in reads:
        for statement in statements_of(path, work):
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
            scans = [
                step
                for step in plan
                if step.startswith(("SCAN", "USE TEMP B-TREE"))
                and "json_each" not in step
                and step.split()[1] not in ("path", "here", "found", "CONSTANT")
            ]
            allowed = (
                ["USE TEMP B-TREE FOR ORDER BY"]
                if "ORDER BY path.place" in statement or "scope IN" in statement
                else []
            )
            assert [step for step in scans if step not in allowed] == [], (statement, plan)
            checked += 1
    connection.close()
    return checked
