"""One call at a time on a session, among tasks, engines and processes, on one machine and on a server (SessionLocks)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import psycopg
import pytest
from engine_parts import WORLD
from session_player import locks_of, store_of

from jacquard import CurationConfig, RuntimeConfig, create_context_engine, open_runtime
from jacquard.config.sections import LockConfig
from jacquard.turns.host.session_lock import SessionLock
from mnemosyne import Role, StoreUnavailableError
from mnemosyne.core.errors import StoreBusyError
from mnemosyne.stores.locate import postgres_address
from mnemosyne.stores.postgres.locks import PostgresSessionLocks

pytestmark = pytest.mark.anyio
PLAIN = RuntimeConfig(curation=CurationConfig(enabled=False))
PLAYER = Path(__file__).with_name("session_player.py")
FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"


@pytest.fixture(params=["file", "postgresql"])
def address(request, tmp_path):
    return str(tmp_path) if request.param == "file" else request.getfixturevalue("postgres_url")


@asynccontextmanager
async def held_elsewhere(address, session_id):
    """Another process that holds a session; it is killed at the end, or before by `.kill()`."""

    def begin():
        process = subprocess.Popen(
            [sys.executable, str(PLAYER), "hold", address, session_id], stdout=subprocess.PIPE, text=True
        )
        return process, process.stdout.readline()

    process, said = await anyio.to_thread.run_sync(begin)
    try:
        assert said == "held\n"
        yield process
    finally:
        process.kill()
        await anyio.to_thread.run_sync(process.communicate)


async def hold_once(locks, session_id):
    async with locks.hold(session_id):
        return True


async def test_a_lock_holds_among_holders_and_dies_with_its_task(address):
    one, two = locks_of(address), locks_of(address, wait_seconds=0.05)
    async with one.hold("s"):
        assert await hold_once(two, "other")
        with pytest.raises(StoreBusyError, match=r"Session 's' in .* locked by another process for 0\.05 s.*try again"):
            await hold_once(two, "s")
    with anyio.move_on_after(0.05):
        async with one.hold("s"):
            await anyio.sleep(60)
    assert await hold_once(two, "s")
    await one.close()
    await two.close()


async def test_tasks_with_the_same_locks_come_one_after_the_other(address):
    locks, inside, most = locks_of(address), 0, 0

    async def work():
        nonlocal inside, most
        async with locks.hold("s"):
            inside += 1
            most = max(most, inside)
            await anyio.sleep(0.001)
            inside -= 1

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(work)
    assert most == 1
    await locks.close()


async def test_who_is_cancelled_while_asking_holds_nothing(address):
    locks, other = locks_of(address), locks_of(address, wait_seconds=60)
    for loops in range(12):
        task = asyncio.ensure_future(hold_once(locks, "s"))
        for _ in range(loops):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        with anyio.fail_after(60):
            assert await hold_once(other, "s")
            assert await hold_once(locks, "s")
    await locks.close()
    await other.close()


async def test_a_killed_holder_frees_its_session(address):
    locks, patient = locks_of(address, wait_seconds=0.05), locks_of(address)
    async with held_elsewhere(address, "s") as process:
        with pytest.raises(StoreBusyError):
            await hold_once(locks, "s")
        assert await hold_once(locks, "other")
        process.kill()
        assert await hold_once(patient, "s")
    await locks.close()
    await patient.close()


async def test_processes_play_one_session_one_after_the_other(address):
    turns, players = 3, 2
    store = store_of(address)
    async with create_context_engine(store, config=PLAIN, world=WORLD) as engine:
        await engine.start_session("s", WORLD)
    with anyio.fail_after(180):
        async with anyio.create_task_group() as at_work:
            for n in range(players):
                command = [sys.executable, str(PLAYER), "play", address, "s", f"p{n}", str(turns)]
                at_work.start_soon(anyio.run_process, command)
    messages = [item.message for item in (await store.window("s", message_limit=100)).messages]
    await store.close()
    replies = [place for place, message in enumerate(messages) if message.role is Role.ASSISTANT]
    assert len(replies) == turns * players
    # A message that another one overtook before its reply stays, without one, and is said again.
    for place in replies:
        assert messages[place].content == f"reply to {messages[place - 1].content}"


async def test_an_engine_waits_for_a_session_that_another_process_holds_and_for_no_other(postgres_url):
    config = RuntimeConfig(curation=CurationConfig(enabled=False), locks=LockConfig(wait_seconds=0.1))
    async with open_runtime(postgres_url, world=FOREST, embedder="none", config=config) as runtime:
        for name in ("held", "free"):
            await runtime.ensure_session(name, index=False)
        async with held_elsewhere(postgres_url, "held"):
            with pytest.raises(StoreBusyError, match="Session 'held'"):
                await runtime.engine.prepare_turn("held", "Where is the key?")
            assert (await runtime.engine.prepare_turn("free", "Where is the key?")).messages
        assert (await runtime.engine.prepare_turn("held", "And where is it now?")).messages


async def test_more_sessions_than_the_server_has_connections_are_held_at_once(postgres_url):
    locks, other = locks_of(postgres_url), locks_of(postgres_url, wait_seconds=0)
    async with AsyncExitStack() as held:
        for number in range(250):
            await held.enter_async_context(locks.hold(f"s{number}"))
        with pytest.raises(StoreBusyError):
            await hold_once(other, "s249")
    assert await hold_once(other, "s249")
    await locks.close()
    await other.close()


async def test_a_lost_connection_is_opened_again(postgres_url):
    locks, other = locks_of(postgres_url), locks_of(postgres_url)
    async with locks.hold("s"):
        await anyio.to_thread.run_sync(end_connections, postgres_url)
        assert await hold_once(other, "s")
    assert await hold_once(locks, "s")
    await locks.close()
    await other.close()


def end_connections(url):
    """End the connections that hold advisory locks, as a server does that is started again."""
    with psycopg.connect(postgres_address(url).conninfo, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
        )


async def test_a_server_that_is_not_there_is_named_without_its_password():
    address = postgres_address("postgresql://me:secret-word@127.0.0.1:9/db?connect_timeout=2")
    with pytest.raises(StoreUnavailableError, match="sessions cannot be locked") as caught:
        await hold_once(PostgresSessionLocks(address), "s")
    assert "secret-word" not in str(caught.value)


async def test_nothing_is_left_of_sessions_that_nobody_waits_for():
    lock, order = SessionLock(), []

    async def hold(number):
        async with lock.acquire("s"):
            order.append(number)
            assert len(lock) == 1

    async with anyio.create_task_group() as group, lock.acquire("s"):
        for number in range(3):
            group.start_soon(hold, number)
        await anyio.lowlevel.checkpoint()
        assert (order, len(lock)) == ([], 1)
    assert order == [0, 1, 2]
    assert len(lock) == 0
