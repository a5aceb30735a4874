"""Nothing acknowledged is lost by a kill, and no half turn is left (Store rules 1 and 2)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest

from mnemosyne import Chain, SessionStart, Store, open_store
from mnemosyne.core.errors import TurnNotFoundError
from mnemosyne.schema.memory import session_scope
from mnemosyne.schema.session import TurnStatus
from mnemosyne.stores.locate import locate_store

pytestmark = pytest.mark.anyio

WRITER = Path(__file__).with_name("store_writer.py")
ROOT = Path(__file__).parents[2]
SESSION = "s1"


class Writers:
    """A process that starts writers on a store, one after the other."""

    def __init__(self, address: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(WRITER), address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PATH": ""},
        )

    def run_and_kill(self, name: str, after_lines: int, delay: float) -> list[str]:
        """Let a writer write some lines and then for `delay` seconds, kill it, and return all that it has said."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        first, _, number = self._process.stdout.readline().partition(" ")
        assert first == "writer"
        lines: list[str] = []
        for line in self._process.stdout:
            if line.startswith("ended"):
                assert line.split()[1] == str(-signal.SIGKILL)
                return lines
            lines.append(line.strip())
            if len(lines) == after_lines:
                threading.Timer(delay, os.kill, (int(number), signal.SIGKILL)).start()
        raise AssertionError("the writers ended by themselves")

    def close(self) -> None:
        """End."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(timeout=60) == 0
        self._process.stdout.close()


def wait_for_server(address: str) -> None:
    """Wait until PostgreSQL has noticed that its client is gone: what it was told before, it still does."""
    postgres = locate_store(address, look=False).postgres
    if postgres is None:
        return
    until, rests = time.monotonic() + 60, 0
    working = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'jacquard' AND state <> 'idle'"
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        # A connection that rests ends as soon as its client is gone; what another test left open rests, too.
        while rests < 3:
            assert time.monotonic() < until, "the server still serves a client that was killed"
            rests = 0 if connection.execute(working).fetchone() else rests + 1
            time.sleep(0.02)


async def check_all(store: Store, said: list[str]) -> None:
    for line in said:
        status, turn_id = line.split()
        record = await store.turn(SESSION, turn_id)
        if status == "committed":
            assert record.status is TurnStatus.COMMITTED, line
    window = await store.window(SESSION, message_limit=100_000)
    depth = window.head.depth
    turns = await store.turns(SESSION, limit=100_000)
    assert [turn.depth for turn in turns] == list(range(1, depth + 1))
    assert window.state == {"count": depth}
    contents = [placed.message.content for placed in window.messages]
    assert contents == [text for turn in turns for text in (f"ask {turn.turn_id}", f"tell {turn.turn_id}")]
    events = await store.entries_after(session_scope(SESSION), Chain.EVENT, 0, 100_000)
    assert [found.entry.turn_id for found in events] == [turn.turn_id for turn in turns]
    history = await store.entries_after(session_scope(SESSION), Chain.HISTORY, 0, 200_000)
    assert [found.entry.text for found in history] == contents
    if turns:
        last = turns[-1].turn_id
        assert (await store.turn(SESSION, last)).receipt == {"turn": last}
        assert await store.state_at(SESSION, last) == {"count": depth}
    if window.pending is not None:
        assert window.pending.prompt == {"text": window.pending.turn_id * 500}
    with pytest.raises(TurnNotFoundError):
        await store.turn(SESSION, "never written")


async def kill_rounds(address: str, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    store = open_store(address)
    await store.create_session(SessionStart(session_id=SESSION, world_id="w", locale="en", state={"count": 0}))
    await store.close()
    writers = Writers(address)
    committed = 0
    for number in range(rounds):
        said = writers.run_and_kill(f"r{number}", chance.randint(1, 12), chance.random() * 0.02)
        wait_for_server(address)
        store = open_store(address)
        await check_all(store, said)
        depth = (await store.head(SESSION)).depth
        acknowledged = sum(line.startswith("committed") for line in said)
        assert committed + acknowledged <= depth <= committed + acknowledged + 1
        committed = depth
        await store.close()
    writers.close()


@pytest.fixture(params=["sqlite", "file", "postgresql"])
def address(request, tmp_path):
    """The address of an empty store of each kind that several processes may use."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/store.db" if request.param == "sqlite" else f"file:///{tmp_path}/files"


async def test_a_killed_writer_loses_nothing_and_leaves_no_half_turn(address):
    await kill_rounds(address, 6, seed=1)


@pytest.mark.full
async def test_a_writer_killed_five_hundred_times(request, address):
    if "full" not in (request.config.getoption("markexpr") or ""):
        pytest.skip("the long form: run it with -m full")
    await kill_rounds(address, 500, seed=2)
