"""How late prompts are when the selector's model is slow, hangs, breaks off or talks rubbish.

Every turn goes over real HTTP to a scripted server in a process of its own. What counts is the wall time of
`prepare_turn` beyond the deadline, and which road each turn took.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import anyio
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.bench.talk import questions, session_of
from evals.errors import SetupError
from evals.figures import percentiles
from evals.machine import load, machine
from jacquard.build import Workshop, open_workshop
from jacquard.config import CurationConfig, RuntimeConfig, SelectorConfig

SERVER = Path(__file__).resolve().parents[2] / "tests" / "servers" / "openai_server.py"
SEED = 11
SLOWEST_SECONDS = 5.0
REPLY = "<content>So be it, 就这样吧。</content>"
_FAULTS = ("hang", "status:500", "status:429", "status:401", "drop", "html", "rubbish", "unknown", "many", "empty")
_FAULT_SHARE = 0.4

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One turn: wall time of `prepare_turn` and of Stream B in it (None where it did not run), and the road it took."""

    wall_ms: float
    stream_ms: float | None
    path: str
    code: str


def script(turns: int, seed: int = SEED) -> list[str]:
    """Return what the server does, a step a request: answers after 0 to 5 s, and every kind of fault."""
    random = Random(seed)
    return [
        random.choice(_FAULTS) if random.random() < _FAULT_SHARE else f"slow:{random.uniform(0.0, SLOWEST_SECONDS):.3f}"
        for _ in range(turns)
    ]


@asynccontextmanager
async def server(steps: Sequence[str], folder: Path) -> AsyncIterator[str]:
    """Run the scripted server in a process of its own and give its base address; it ends with the block.

    What it says goes to a file in `folder`: a pipe that nobody reads would stop it in the end.
    """
    if not await anyio.Path(SERVER).is_file():
        raise SetupError(f"{SERVER} is not there: this benchmark runs from a checkout of the repository.")
    command = [sys.executable, str(SERVER), "--port", "0", "--script", *steps]
    log = folder / "server.log"
    async with await anyio.open_file(log, "w", encoding="utf-8") as said:
        process = await anyio.open_process(command, stdout=said.wrapped, stderr=said.wrapped)
    try:
        while not (heard := await anyio.Path(log).read_text(encoding="utf-8")).endswith("\n"):
            if process.returncode is not None:
                raise SetupError(f"The server did not start: {heard.strip() or 'it said nothing'}")
            await anyio.sleep(0.02)
        yield heard.splitlines()[0].rpartition(" ")[2]
    finally:
        process.terminate()
        await process.wait()


async def run(
    turns: int, messages: int, deadline_ms: int, embedder: str, say: Say, progress: Progress
) -> dict[str, Any]:
    """Run `turns` turns of a session of `messages` messages against the server and return the figures."""
    with tempfile.TemporaryDirectory(prefix="jacquard-bench-") as name:
        folder = Path(name)
        say(f"building a session of {messages:,} messages")
        async with server(script(turns), folder) as api_base:
            config = RuntimeConfig(
                curation=CurationConfig(deadline_ms=deadline_ms, background_seconds=SLOWEST_SECONDS),
                selector=SelectorConfig(model="openai/scripted", api_base=api_base),
            )
            async with open_workshop(str(folder / "store"), embedder=embedder, config=config) as workshop:
                head = await workshop.import_session(session_of(messages, seed=SEED))
                await workshop.warm()
                await workshop.sync(head.session_id, lambda done, total: progress("indexing", done, total))
                samples = []
                for place, text in enumerate(questions(turns, SEED), start=1):
                    samples.append(await _turn(workshop, head.session_id, text, config))
                    progress("turns", place, turns)
    return {**_figures(samples, deadline_ms, embedder), "messages": messages}


async def _turn(workshop: Workshop, session_id: str, text: str, config: RuntimeConfig) -> Sample:
    began = perf_counter()
    prepared = await workshop.engine.prepare_turn(session_id, text, config)
    wall_ms = (perf_counter() - began) * 1000
    await workshop.engine.commit_assistant_message(session_id, REPLY, turn_id=prepared.turn_id)
    stream = prepared.report.stream_b
    return Sample(
        wall_ms=wall_ms,
        stream_ms=prepared.report.timings_ms.get("stream_b"),
        path=stream.path.value,
        code=stream.code,
    )


def _figures(samples: Sequence[Sample], deadline_ms: int, embedder: str) -> dict[str, Any]:
    roads = sorted({(sample.path, sample.code) for sample in samples})
    return {
        "turns": len(samples),
        "deadline_ms": deadline_ms,
        "embedder": embedder,
        "lateness_ms": _lateness([sample.wall_ms for sample in samples], deadline_ms),
        "stream_lateness_ms": _lateness(
            [sample.stream_ms for sample in samples if sample.stream_ms is not None], deadline_ms
        ),
        "paths": dict(Counter(sample.path for sample in samples)),
        "roads": [
            {
                "path": path,
                "code": code,
                "turns": len(walls),
                "wall_p50_ms": percentiles(walls, 50)[0],
                "wall_max_ms": max(walls),
            }
            for path, code in roads
            for walls in [[each.wall_ms for each in samples if (each.path, each.code) == (path, code)]]
        ],
        "machine": machine(),
        "load": load(),
    }


def _lateness(values: Sequence[float], deadline_ms: int) -> dict[str, float]:
    """Return how far those values that lie beyond the deadline do so, and how many they are."""
    late = [value - deadline_ms for value in values if value > deadline_ms]
    p50, p99 = percentiles(late, 50, 99)
    return {"late": len(late), "p50": p50, "p99": p99, "max": max(late, default=0.0)}


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print the figures."""
    where = figures["machine"]
    console.print(
        Text(
            f"{where['cpu']}, {where['cores']} cores, load {figures['load']}; {figures['turns']} turns, "
            f"deadline {figures['deadline_ms']} ms, embedder {figures['embedder']}"
        )
    )
    table = Table(title="roads", title_justify="left")
    for name in ("path", "code", "turns", "p50 ms", "max ms"):
        table.add_column(name, justify="left" if name in ("path", "code") else "right")
    for road in figures["roads"]:
        cells = (
            road["path"],
            road["code"],
            str(road["turns"]),
            f"{road['wall_p50_ms']:.0f}",
            f"{road['wall_max_ms']:.0f}",
        )
        table.add_row(*map(Text, cells))
    console.print(table)
    for name, title in (("stream_lateness_ms", "Stream B alone"), ("lateness_ms", "the whole of prepare_turn")):
        late = figures[name]
        console.print(
            Text(
                f"{title}: {late['late']} of {figures['turns']} turns beyond the deadline, "
                f"these by {late['p50']:.1f} ms p50, {late['p99']:.1f} p99, {late['max']:.1f} max"
            ),
            style="bold",
        )
