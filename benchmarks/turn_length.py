"""Cost of a turn on a short session and on a long one, measured in turn in the same process.

The turns of the sizes are interleaved, and the order changes from turn to turn, so that other work on the machine falls
on all of them alike: read the ratio first, the milliseconds second. Processor time is that of all threads of this
process, and is the most reliable on a busy machine.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.conversation import questions, session_of
from evals.reporting.figures import percentiles
from evals.reporting.machine import load, machine, memory_mb, peak_memory_mb
from jacquard import Runtime, open_runtime

SEED = 7
WARM_TURNS = 5
REPLY = "<content>Yes, that is how I remember it, 我也这么记得。</content>"
WHOLE = ("turn", "turn (processor)")

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


@dataclass(kw_only=True, slots=True)
class Side:
    """One size: its runtime, how long it took to fill, the memory it brought, and the samples by step."""

    messages: int
    runtime: Runtime
    session_id: str
    import_seconds: float
    index_seconds: float
    memory_mb: float
    samples: dict[str, list[float]] = field(default_factory=dict)

    def add(self, steps: Mapping[str, float]) -> None:
        """Keep one turn's milliseconds."""
        for name, value in steps.items():
            self.samples.setdefault(name, []).append(value)


async def measure(
    sizes: Sequence[int], *, turns: int, embedder: str, say: Say, progress: Progress, folder: Path
) -> dict[str, Any]:
    """Build a session of each size below `folder`, run `turns` turns on each in turn, and return the figures."""
    async with AsyncExitStack() as stack:
        sides = []
        for size in sizes:
            say(f"building a session of {size:,} messages")
            sides.append(await _side(stack, size, embedder, folder / str(size), progress))
        for place, text in enumerate(islice(questions(turns + WARM_TURNS, SEED), turns + WARM_TURNS)):
            ordered = sides if place % 2 == 0 else sides[::-1]
            for side in ordered:
                steps = await _turn(side, text)
                if place >= WARM_TURNS:
                    side.add(steps)
            progress("turns", place + 1, turns + WARM_TURNS)
    return _figures(sides, turns, embedder)


async def _side(stack: AsyncExitStack, size: int, embedder: str, folder: Path, progress: Progress) -> Side:
    runtime = await stack.enter_async_context(open_runtime(str(folder), embedder=embedder))
    start = session_of(size, seed=SEED)
    before = memory_mb()
    began = perf_counter()
    head = await runtime.import_session(start)
    imported = perf_counter()
    await runtime.warm()
    await runtime.sync(head.session_id, lambda done, total: progress(f"indexing {size:,}", done, total))
    return Side(
        messages=size,
        runtime=runtime,
        session_id=head.session_id,
        import_seconds=imported - began,
        index_seconds=perf_counter() - imported,
        memory_mb=memory_mb() - before,
    )


async def _turn(side: Side, text: str) -> dict[str, float]:
    engine = side.runtime.engine
    worked, began = process_time(), perf_counter()
    prepared = await engine.prepare_turn(side.session_id, text)
    made = perf_counter()
    await engine.commit_assistant_message(side.session_id, REPLY, turn_id=prepared.turn_id)
    done, rested = perf_counter(), process_time()
    steps = {
        "turn": (done - began) * 1000,
        "turn (processor)": (rested - worked) * 1000,
        "prepare": (made - began) * 1000,
        "commit": (done - made) * 1000,
    }
    return {**steps, **{f"· {name}": float(value) for name, value in prepared.report.timings_ms.items()}}


def _figures(sides: Sequence[Side], turns: int, embedder: str) -> dict[str, Any]:
    names = [name for name in sides[0].samples if all(len(side.samples.get(name, ())) > turns // 2 for side in sides)]
    steps = {}
    for name in names:
        medians = [statistics.median(side.samples[name]) for side in sides]
        steps[name] = {
            "median_ms": medians,
            "p95_ms": [percentiles(side.samples[name], 95)[0] for side in sides],
            "ratio": medians[-1] / medians[0] if medians[0] > 0 else None,
        }
    return {
        "sizes": [side.messages for side in sides],
        "turns": turns,
        "embedder": embedder,
        "ratio": steps["turn"]["ratio"],
        "processor_ratio": steps["turn (processor)"]["ratio"],
        "steps": steps,
        "import_seconds": [side.import_seconds for side in sides],
        "index_seconds": [side.index_seconds for side in sides],
        "memory_mb": [side.memory_mb for side in sides],
        "peak_memory_mb": peak_memory_mb(),
        "machine": machine(),
        "load": load(),
    }


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print the figures side by side."""
    sizes = figures["sizes"]
    where = figures["machine"]
    console.print(
        Text(
            f"{where['cpu']}, {where['cores']} cores, {where['memory_gb']} GB, load {figures['load']}; "
            f"{figures['turns']} turns a size, interleaved; embedder {figures['embedder']}"
        )
    )
    table = Table(title="milliseconds, median (p95)", title_justify="left")
    table.add_column("step")
    for size in sizes:
        table.add_column(f"{size:,} messages", justify="right")
    table.add_column("ratio", justify="right")
    for name, step in figures["steps"].items():
        cells = [f"{median:.2f} ({p95:.2f})" for median, p95 in zip(step["median_ms"], step["p95_ms"], strict=True)]
        ratio = "-" if step["ratio"] is None else f"{step['ratio']:.2f}"
        table.add_row(*(Text(cell) for cell in (name, *cells, ratio)), style="bold" if name in WHOLE else "")
    console.print(table)
    for place, size in enumerate(sizes):
        console.print(
            Text(
                f"{size:,} messages: imported in {figures['import_seconds'][place]:.1f} s, indexed in "
                f"{figures['index_seconds'][place]:.1f} s, {figures['memory_mb'][place]:.0f} MB more in memory"
            )
        )
    ratio, processor = figures["ratio"], figures["processor_ratio"]
    console.print(
        Text(
            f"peak memory of the process {figures['peak_memory_mb']:.0f} MB\n"
            f"a turn on {sizes[-1]:,} messages costs {ratio:.2f} times a turn on {sizes[0]:,} (processor time: {processor:.2f})"
        ),
        style="bold",
    )


async def run(sizes: Sequence[int], turns: int, embedder: str, say: Say, progress: Progress) -> dict[str, Any]:
    """Measure in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="jacquard-bench-") as folder:
        return await measure(
            sorted(sizes), turns=turns, embedder=embedder, say=say, progress=progress, folder=Path(folder)
        )
