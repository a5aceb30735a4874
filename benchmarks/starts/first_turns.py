"""First turn of a fresh process, step by step, on sessions of several sizes and in every state of their index.

Each row is a process of its own. Its first turn is compared with its second; the imports by then and the receipt's
degradations are shown with the times. Documents have made-up vectors under the name of the real model, which embeds the
queries.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

import anyio
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.conversation import questions
from benchmarks.starts.build import build, session_name
from evals.errors import SetupError
from evals.reporting.machine import load, machine

SEED = 11
SETTLE_SECONDS = 120.0
KEPT, EARLIER, NONE = "checkpoint", "earlier checkpoint", "no checkpoint"
Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


async def run(
    sizes: Sequence[int], states: Sequence[str], rounds: int, embedder: str, say: Say, progress: Progress
) -> dict[str, Any]:
    """Measure in a folder that is removed afterwards; return the figures. SetupError where a process fails."""
    rows = list[dict[str, Any]]()
    async with anyio.TemporaryDirectory(prefix="jacquard-bench-") as name:
        for size in sizes:
            folder = Path(name) / str(size)
            say(f"building a session of {size:,} messages")
            await build(folder, size, embedder, progress)
            texts = questions(2 * rounds * len(states) + 4, SEED)
            for file in (folder / "index").glob("*.checkpoint"):
                file.with_suffix(".kept").write_bytes(file.read_bytes())
            # Writes to the table, so that the kept checkpoint is of an earlier state.
            await _play(folder, size, embedder, list(islice(texts, 2)))
            for state in states:
                played = []
                for each in range(rounds):
                    _prepare(folder, state)
                    played.append(await _play(folder, size, embedder, list(islice(texts, 2))))
                    progress(f"{size:,}, {state}", each + 1, rounds)
                rows.append({"messages": size, "state": state, "processes": played})
    return {"rows": rows, "rounds": rounds, "embedder": embedder, "machine": machine(), "load": load()}


def _prepare(folder: Path, state: str) -> None:
    """Bring the checkpoints of a store into a state."""
    for kept in (folder / "index").glob("*.kept"):
        file = kept.with_suffix(".checkpoint")
        if state == NONE:
            file.unlink(missing_ok=True)
        elif state == EARLIER:
            file.write_bytes(kept.read_bytes())


async def _play(folder: Path, size: int, embedder: str, texts: list[str]) -> dict[str, Any]:
    order = {
        "store": str(folder),
        "embedder": embedder,
        "session": session_name(size),
        "questions": texts,
        "settle_seconds": SETTLE_SECONDS,
    }
    command = [sys.executable, "-m", "benchmarks.starts.child", repr(monotonic()), json.dumps(order)]
    done = await anyio.run_process(command, check=False)
    if done.returncode:
        raise SetupError(f"A process failed: {done.stderr.decode(errors='replace')[-2_000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _median(row: Mapping[str, Any], turn: int | None, name: str) -> float:
    values = [each[name] if turn is None else each["turns"][turn][name] for each in row["processes"]]
    return float(median(values))


def show_starts(figures: Mapping[str, Any], console: Console) -> None:
    """Print what each step of a start takes, and what the first prompt had imported."""
    _say_where(figures, console)
    table = Table(title="from nothing to the first prompt, ms", title_justify="left")
    for name in (
        "messages",
        "index",
        "Python",
        "import",
        "open",
        "first turn",
        "all",
        "processor",
        "second turn",
        "close",
    ):
        table.add_column(name, justify="right")
    for row in figures["rows"]:
        steps = [_median(row, None, name) for name in ("python_ms", "import_ms", "open_ms")]
        turns = [_median(row, 0, name) for name in ("wall_ms", "since_start_ms", "processor_ms")]
        rest = [_median(row, 1, "wall_ms"), _median(row, None, "close_ms")]
        table.add_row(f"{row['messages']:,}", row["state"], *(f"{each:.0f}" for each in (*steps, *turns, *rest)))
    console.print(table)
    for row in figures["rows"]:
        first = row["processes"][0]["turns"][0]
        console.print(Text(f"{row['messages']:,}, {row['state']}: imported {', '.join(first['imported'])}"))
        worked, modules = _median(row, None, "import_processor_ms"), _median(row, None, "modules")
        memory = _median(row, None, "peak_memory_mb")
        console.print(Text(f"  import: processor {worked:.0f} ms, {modules:.0f} modules; peak memory {memory:.0f} MB"))
        console.print(Text("  " + ", ".join(f"{name} {ms:.0f}" for name, ms in first["timings_ms"].items())))


def show_cold(figures: Mapping[str, Any], console: Console) -> None:
    """Print first and second turns: time, and memories found."""
    _say_where(figures, console)
    table = Table(title="the first turn on a session that is not in memory", title_justify="left")
    for name in (
        "messages",
        "index",
        "first ms",
        "processor",
        "memories",
        "second ms",
        "processor",
        "memories",
        "receipt",
        "MB",
    ):
        table.add_column(name, justify="right")
    for row in figures["rows"]:
        cells = []
        for turn in (0, 1):
            wall, worked = _median(row, turn, "wall_ms"), _median(row, turn, "processor_ms")
            cells += [f"{wall:.0f}", f"{worked:.0f}", f"{_median(row, turn, 'candidates'):.0f}"]
        codes = dict.fromkeys(code for each in row["processes"] for code in each["turns"][0]["degradations"])
        memory = f"{_median(row, None, 'peak_memory_mb'):.0f}"
        table.add_row(f"{row['messages']:,}", row["state"], *cells, ", ".join(codes) or "-", memory)
    console.print(table)
    console.print(Text("memories: candidates that recall found; the selection takes a few of them"))


def _say_where(figures: Mapping[str, Any], console: Console) -> None:
    where = figures["machine"]
    console.print(
        Text(
            f"{where['cpu']}, {where['cores']} cores, load {figures['load']}; {figures['rounds']} processes a row, medians; "
            f"embedder {figures['embedder']}"
        )
    )
