"""Nothing acknowledged is lost by a kill, and no half turn is left (Store rules 1 and 2)."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mnemosyne.errors import TurnNotFoundError
from mnemosyne.schema.memory import Chain, session_scope
from mnemosyne.schema.record import SessionStart
from mnemosyne.schema.session import TurnStatus
from mnemosyne.stores.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

WRITER = Path(__file__).with_name("store_writer.py")
ROOT = Path(__file__).parents[2]
SESSION = "s1"


def run_and_kill(database: Path, name: str, after_lines: int, delay: float) -> list[str]:
    """Start a writer, let it write some lines and then for `delay` seconds, kill it, and return all that it has said."""
    process = subprocess.Popen(
        [sys.executable, str(WRITER), str(database), name],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    lines: list[str] = []
    assert process.stdout is not None
    with process.stdout as output:
        for line in output:
            lines.append(line)
            if len(lines) == after_lines:
                threading.Timer(delay, process.kill).start()
    assert process.wait(timeout=30) == -signal.SIGKILL
    return [line.strip() for line in lines if line.endswith("\n")]


async def check_all(store: SqliteStore, said: list[str]) -> None:
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


async def kill_rounds(folder: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    database = folder / "store.db"
    store = SqliteStore(database)
    await store.create_session(SessionStart(session_id=SESSION, world_id="w", locale="en", state={"count": 0}))
    await store.close()
    committed = 0
    for number in range(rounds):
        said = run_and_kill(database, f"r{number}", chance.randint(1, 12), chance.random() * 0.02)
        store = SqliteStore(database)
        await check_all(store, said)
        depth = (await store.head(SESSION)).depth
        acknowledged = sum(line.startswith("committed") for line in said)
        assert committed + acknowledged <= depth <= committed + acknowledged + 1
        committed = depth
        await store.close()


async def test_a_killed_writer_loses_nothing_and_leaves_no_half_turn(tmp_path):
    await kill_rounds(tmp_path, 15, seed=1)


@pytest.mark.full
async def test_a_writer_killed_five_hundred_times(tmp_path, request):
    if "full" not in (request.config.getoption("markexpr") or ""):
        pytest.skip("the long form: run it with -m full")
    await kill_rounds(tmp_path, 500, seed=2)
