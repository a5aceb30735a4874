"""Many sessions at once: turns a second, how long a session waits for its turn, processor time and memory.

A closed loop: each session asks for its next turn (prepare and commit) as soon as it has the last one, in one process
or over HTTP with so many workers. There is no pause between turns, so this is the most that a process does. Sessions
play the example world. The time of a turn is also given in runs of a fixed loop, which takes longer on a busy machine
as a turn does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, thread_time
from typing import Any

import anyio
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.conversation import scenes
from benchmarks.service.http_client import HttpClient
from benchmarks.service.load import Play, Sessions, play_at_once
from benchmarks.service.service import (
    INPUTS,
    SEED,
    WORLD,
    Settings,
    http_player,
    library_player,
    memory_of,
    processor_seconds,
    serve,
)
from evals.reporting.figures import percentiles
from evals.reporting.machine import load, machine
from jacquard import open_runtime

WARM_TURNS = 2
_LOOP, _PAUSE_SECONDS = 20_000, 0.2
Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


async def run(
    counts: Sequence[int], workers: Sequence[int], turns: int, embedder: str, say: Say, progress: Progress
) -> dict[str, Any]:
    """Measure each number of sessions in each way (0 workers: in this process); return the figures."""
    rows = list[dict[str, Any]]()
    with TemporaryDirectory(prefix="jacquard-bench-") as name:
        for way in workers:
            async with AsyncExitStack() as stack:
                play, pid = await _open(stack, Path(name) / f"workers-{way}", way, embedder)
                for count in counts:
                    say(f"{count} sessions, {_name_of(way)}")
                    rows.append(await _measure(play, pid, way, count, turns))
                    progress("rows", len(rows), len(counts) * len(workers))
    return {"rows": rows, "turns": turns, "embedder": embedder, "machine": machine(), "load": load()}


async def _open(stack: AsyncExitStack, store: Path, workers: int, embedder: str) -> tuple[Play, int]:
    if workers:
        settings = Settings(workers=workers, embedder=embedder)
        port, process = await stack.enter_async_context(
            serve(store, settings, limits__at_once=64, limits__waiting=1_000)
        )
        return http_player(await stack.enter_async_context(HttpClient(port))), process.pid
    runtime = await stack.enter_async_context(open_runtime(store, world=WORLD, embedder=embedder))
    await runtime.warm()
    return library_player(runtime), os.getpid()


async def _measure(play: Play, pid: int, workers: int, count: int, turns: int) -> dict[str, Any]:
    texts = list(islice(scenes(INPUTS, SEED, 0), INPUTS))
    sessions = Sessions(prefix=f"turns-{count}", inputs=lambda turn: texts[turn % len(texts)], length=10**9)
    sessions.open(count)
    await play_at_once(play, sessions, count, WARM_TURNS * count)
    loops = list[float]()
    async with anyio.create_task_group() as beside:
        beside.start_soon(_run_loops, loops)
        before, began = processor_seconds(pid), perf_counter()
        played = await play_at_once(play, sessions, count, turns)
        seconds, worked = perf_counter() - began, processor_seconds(pid) - before
        beside.cancel_scope.cancel()
    # Those in this process are not a part of the turns.
    worked -= sum(loops) if pid == os.getpid() else 0.0
    done = [each.milliseconds for each in played if each.acknowledged]
    middle, late = percentiles(done, 50, 95)
    return {
        "sessions": count,
        "workers": workers,
        "turns": len(done),
        "refused": len(played) - len(done),
        "turns_a_second": len(done) / seconds,
        "p50_ms": middle,
        "p95_ms": late,
        "processor_ms": 1000 * worked / max(len(done), 1),
        "loops": worked / max(len(done), 1) / median(loops),
        "memory_mb": memory_of(pid),
    }


async def _run_loops(seconds: list[float]) -> None:
    """Measure the processor time of a fixed loop, again and again: what else runs on the machine slows it as it slows the turns."""
    while True:
        began = thread_time()
        sum(number * number % 7 for number in range(_LOOP))
        seconds.append(thread_time() - began)
        await anyio.sleep(_PAUSE_SECONDS)


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print a row for each number of sessions and each way."""
    where = figures["machine"]
    console.print(
        Text(f"{where['cpu']}, {where['cores']} cores, load {figures['load']}; embedder {figures['embedder']}")
    )
    table = Table(title="sessions at once, each without a pause", title_justify="left")
    for name in ("sessions", "in", "turns/s", "wait p50 ms", "p95", "processor ms a turn", "in loops", "MB", "refused"):
        table.add_column(name, justify="right")
    for row in figures["rows"]:
        table.add_row(
            str(row["sessions"]),
            _name_of(row["workers"]),
            f"{row['turns_a_second']:.1f}",
            f"{row['p50_ms']:.0f}",
            f"{row['p95_ms']:.0f}",
            f"{row['processor_ms']:.1f}",
            f"{row['loops']:.1f}",
            f"{row['memory_mb']:.0f}",
            str(row["refused"]),
        )
    console.print(table)


def _name_of(workers: int) -> str:
    return f"HTTP, {workers} workers" if workers else "one process"
