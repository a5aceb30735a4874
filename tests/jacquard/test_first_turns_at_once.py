"""First turns of one new session that come at the same moment: whoever is second finds the session of the first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from jacquard import create_context_engine, open_runtime
from mnemosyne import load_world, open_store
from mnemosyne.stores.file.session_locks import FileSessionLocks

ROOT = Path(__file__).parents[2]
PACK = ROOT / "examples" / "whispering_forest" / "en"
TASKS = 8


@pytest.fixture(params=["sqlite", "file", "postgresql", "memory"])
def address(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = {"sqlite": str(tmp_path / "folder"), "file": f"file://{tmp_path}/plain", "memory": "memory:"}
    return plain.get(request.param) or request.getfixturevalue("postgres_url")


@pytest.mark.anyio
async def test_eight_tasks_on_one_workshop(address):
    turns = []
    async with open_runtime(address, world=PACK, embedder="none") as runtime, anyio.create_task_group() as group:

        async def replay_prompt(number: int) -> None:
            head = await runtime.ensure_session("new")
            turns.append((head.world_id, await runtime.engine.prepare_turn("new", f"Who is at gate {number}?")))

        for number in range(TASKS):
            group.start_soon(replay_prompt, number)
    assert len(turns) == TASKS
    assert {world for world, _ in turns} == {"whispering_forest_en"}
    assert len({turn.turn_id for _, turn in turns}) == TASKS


@pytest.mark.anyio
async def test_eight_first_turns_of_several_engines(address, tmp_path):
    """Engines on handles of their own, as processes would be."""
    if address == "memory:":
        pytest.skip("a store in memory has one handle")
    world = await anyio.to_thread.run_sync(load_world, PACK)
    turns = []
    async with AsyncExitStack() as stack:
        stores = [await anyio.to_thread.run_sync(open_store, address) for _ in range(2)]
        for each in stores:
            stack.push_async_callback(each.close)
        locks = [FileSessionLocks(tmp_path / "locks") for _ in stores]
        made = [create_context_engine(each, world=world, locks=own) for each, own in zip(stores, locks, strict=True)]
        engines = [await stack.enter_async_context(engine) for engine in made]

        async def replay_prompt(number: int) -> None:
            turns.append(await engines[number % 2].prepare_turn("new", f"Who is at gate {number}?"))

        async with anyio.create_task_group() as group:
            for number in range(TASKS):
                group.start_soon(replay_prompt, number)
    assert len({turn.turn_id for turn in turns}) == TASKS


@pytest.mark.anyio
async def test_a_session_that_another_engine_starts_meanwhile_is_gone_on_with(address):
    """No locks: both engines find that there is no session, and one of them is first to make it."""
    if address == "memory:":
        pytest.skip("a store in memory has one handle")
    world = await anyio.to_thread.run_sync(load_world, PACK)
    one, other = [await anyio.to_thread.run_sync(open_store, address) for _ in range(2)]
    try:
        async with (
            create_context_engine(one, world=world) as first,
            create_context_engine(other, world=world) as second,
        ):
            turns = []

            async def replay_prompt(engine) -> None:
                turns.append(await engine.prepare_turn("new", "Who is there?"))

            async with anyio.create_task_group() as group:
                for engine in (first, second):
                    group.start_soon(replay_prompt, engine)
        assert len(turns) == 2
    finally:
        await one.close()
        await other.close()


LONG = [pytest.param(store, 4, marks=pytest.mark.full) for store in ("sqlite", "file", "postgresql")]


@pytest.mark.parametrize(("store", "processes"), [("sqlite", 2), *LONG])
def test_processes_that_weave_the_first_turn_at_once(tmp_path, store, processes, request):
    where = {"sqlite": "folder", "file": "file:plain"}.get(store) or request.getfixturevalue("postgres_url")
    words = [
        "play",
        "weave",
        "--world",
        str(PACK),
        "--session",
        "new",
        "--store",
        where,
        "--embedder",
        "none",
        "--json",
        "--linger",
        "0",
    ]
    crew = [
        subprocess.Popen(
            [sys.executable, "-m", "jacquard", *words, "--input", f"Who is at gate {number}?"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for number in range(processes)
    ]
    done = [each.communicate() for each in crew]
    assert [each.returncode for each in crew] == [0] * len(crew), [err for _, err in done]
    reports = [json.loads(out)["report"] for out, _ in done]
    assert len({report["turn_id"] for report in reports}) == len(crew)
    assert "index_damaged" not in {each["code"] for report in reports for each in report["degradations"]}
