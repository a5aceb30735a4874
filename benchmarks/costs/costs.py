"""Counts the work of one turn: calls of Python functions, hops between threads, SQL, JSON values, templates, searches,
bytes, memory.

Turns are played in a session of the example world; each count is the median of the counted turns, so the same code
gives the same figures on every machine. `--baseline` compares them with kept figures and fails if one has grown.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.conversation import scenes
from benchmarks.costs.counters import COUNTS, EXACT, OF_FILES, Counters
from evals.errors import SetupError
from jacquard import CurationConfig, Runtime, RuntimeConfig, open_runtime

WORLD = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
REPLY = '<content>So be it, 就这样吧。</content><state_update>[["ADD", "hero.gold", 1]]</state_update>'
SEED = 41
WARM_TURNS = 12
SETTLE_SECONDS = 600.0
PATIENT = RuntimeConfig(curation=CurationConfig(deadline_ms=600_000))
"""The deadline is not missed on a busy machine: then a turn would do other things."""
PARTS = ("prepare", "commit", "behind")
"""The parts of a turn; `behind` is what the engine does after a commit without anybody waiting for it."""

MOST_CALLED = 25
TOLERANCE = 1.03
"""Growth of an inexact count that still passes, as a factor: runs differ by less."""

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


async def run(
    turns: int, embedder: str, say: Say, progress: Progress, *, warm_turns: int = WARM_TURNS
) -> dict[str, Any]:
    """Play and count, after `warm_turns` that are not counted; return the medians by part and count, and what is called most."""
    counters = Counters()
    counters.install()
    try:
        with TemporaryDirectory(prefix="jacquard-bench-") as name:
            async with open_runtime(Path(name) / "store", world=WORLD, embedder=embedder, config=PATIENT) as runtime:
                await runtime.warm()
                await runtime.ensure_session("costs")
                counted = await _play(runtime, counters, warm_turns, turns, progress)
    finally:
        counters.uninstall()
    functions = {name: count // turns for name, count in list(counters.functions.items())[:MOST_CALLED]}
    medians = {
        part: {name: round(statistics.median(each[name] for each in counted[part])) for name in COUNTS}
        for part in PARTS
    }
    return {
        "python": ".".join(map(str, sys.version_info[:2])),
        "turns": turns,
        "embedder": embedder,
        "counts": medians,
        "functions": functions,
    }


async def _play(
    runtime: Runtime, counters: Counters, warm_turns: int, turns: int, progress: Progress
) -> Mapping[str, list[Mapping[str, int]]]:
    counted: dict[str, list[Mapping[str, int]]] = {part: [] for part in PARTS}
    engine, all_turns = runtime.engine, warm_turns + turns
    for number, text in enumerate(islice(scenes(all_turns, SEED), all_turns)):
        if number == warm_turns:
            counters.forget_functions()
        counters.start()
        prepared = await engine.prepare_turn("costs", text)
        prepare = counters.stop()
        counters.start()
        await engine.commit_assistant_message("costs", REPLY, turn_id=prepared.turn_id)
        commit = counters.stop()
        counters.start()
        await engine.settle(SETTLE_SECONDS)
        behind = counters.stop()
        if number >= warm_turns:
            for part, counts in zip(PARTS, (prepare, commit, behind), strict=True):
                counted[part].append(counts)
        progress("turns", number + 1, all_turns)
    return counted


def sums_of(figures: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts of a whole turn."""
    return {name: sum(figures["counts"][part][name] for part in PARTS) for name in COUNTS}


def read_baseline(file: Path) -> dict[str, Any]:
    """Return kept figures; SetupError if the file has none."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return {"python": str(kept["python"]), "counts": {name: int(kept["counts"][name]) for name in COUNTS}}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SetupError(f"{file} holds no counts of a turn: {error}. Make it with --write-baseline.") from error


def baseline_of(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures to keep."""
    return {"python": figures["python"], "counts": sums_of(figures)}


def find_growth(figures: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each count that is above the kept one; all but the exact ones only for the same Python."""
    found, now = [], sums_of(figures)
    is_same_python = figures["python"] == baseline["python"]
    for name in COUNTS:
        if name in OF_FILES or not (name in EXACT or is_same_python):
            continue
        limit = baseline["counts"][name] * (1.0 if name in EXACT else TOLERANCE)
        if now[name] > limit:
            found.append(f"{name}: {now[name]:,} in a turn, {baseline['counts'][name]:,} are kept")
    return found


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print the counts by part, and what is called most."""
    table = Table("a turn", *PARTS, "in all", title=f"{figures['turns']} turns, medians, Python {figures['python']}")
    sums = sums_of(figures)
    for name in COUNTS:
        table.add_row(name, *(f"{figures['counts'][part][name]:,}" for part in PARTS), f"{sums[name]:,}")
    console.print(table)
    most = Table("function", "calls a turn")
    for name, count in figures["functions"].items():
        most.add_row(name, f"{count:,}")
    console.print(most)
