"""Many processes append to one session: nothing lost, nothing doubled, and everyone's own order kept (Store rule 7)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from store_appender import open_patiently

from mnemosyne import Chain, SessionStart
from mnemosyne.schema.memory import session_scope

pytestmark = pytest.mark.anyio

APPENDER = Path(__file__).with_name("store_appender.py")
ROOT = Path(__file__).parents[2]
SESSION = "s1"


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request, tmp_path):
    return f"sqlite:///{tmp_path}/store.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def run_crowd(address: str, writers: int, times: int, guard_seconds: float) -> tuple[int, float]:
    """Let writers append at once; returns how many conflicts they saw and the seconds they took."""
    command = [sys.executable, str(APPENDER), address]
    crowd = [
        subprocess.Popen(
            [*command, f"w{number}", str(times)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PATH": ""},
        )
        for number in range(writers)
    ]
    for process in crowd:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
    began = time.monotonic()
    for process in crowd:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    conflicts = 0
    for process in crowd:
        said, errors = process.communicate(timeout=guard_seconds)
        assert process.returncode == 0, errors
        conflicts += int(said)
    return conflicts, time.monotonic() - began


async def check_crowd(address: str, writers: int, times: int, guard_seconds: float = 60) -> str:
    store = open_patiently(address)
    await store.create_session(SessionStart(session_id=SESSION, world_id="w", locale="en", state={}))
    conflicts, seconds = run_crowd(address, writers, times, guard_seconds)
    window = await store.window(SESSION, message_limit=writers * times + 1)
    said = [placed.message.content for placed in window.messages]
    assert len(said) == writers * times
    assert window.head.depth == writers * times
    assert window.head.version == 1 + writers * times
    for number in range(writers):
        name = f"w{number}"
        assert [text for text in said if text.startswith(f"{name}.")] == [f"{name}.{place}" for place in range(times)]
    told = await store.entries_after(session_scope(SESSION), Chain.HISTORY, 0, writers * times + 1)
    assert [found.entry.text for found in told] == said
    await store.close()
    kind = address.partition(":")[0]
    return f"{kind}: {writers} x {times} appends, {conflicts} conflicts, each retried once, {seconds:.1f} s"


async def test_a_crowd_appends_to_one_session(address, capsys):
    told = await check_crowd(address, 4, 25)
    with capsys.disabled():
        print(f"\n{told}")


@pytest.mark.full
async def test_eight_processes_append_five_hundred_each(address, capsys, request):
    if "full" not in (request.config.getoption("markexpr") or ""):
        pytest.skip("the long form: run it with -m full")
    told = await check_crowd(address, 8, 500, 3600)
    with capsys.disabled():
        print(f"\n{told}")
