"""What one model costs under torch and under onnxruntime: a query, a batch, a cold start, memory.

Both give the same vectors. Queries and batches of the two are interleaved in one process, so that whatever else the machine
does falls on both alike; each cold start is a process of its own. Read the ratios first.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import anyio
from anyio import to_thread
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.conversation import questions, utterances
from evals.reporting.figures import percentiles
from evals.reporting.machine import load, machine
from jacquard import open_embedder
from mnemosyne import Embedder, model_folder

SEED = 7
WARM = 3
BATCHES = 4
STARTS = 3
BATCH_TEXTS = 32
KINDS = ("torch", "onnx")
_COLD = """
import json, sys, time
import anyio
before = time.perf_counter()
from jacquard.wiring.runtime import open_embedder
embedder = open_embedder(sys.argv[1])
rows = anyio.run(embedder.embed, ["Where does the key of the temple lie?"], "query")
took = time.perf_counter() - before
from evals.reporting.machine import memory_mb
print(json.dumps({"seconds": took, "memory_mb": memory_mb()}))
"""

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


async def run(model: str, queries: int, say: Say, progress: Progress) -> dict[str, Any]:
    """Export the model into a folder that is removed afterwards, and measure both forms of it."""
    async with anyio.TemporaryDirectory(prefix="jacquard-bench-") as folder:
        say(f"exporting {model}")
        made = await to_thread.run_sync(_export, model, Path(folder) / "model")
        # A packaged model would run without torch by its name; by its folder it runs with it.
        names = {"torch": str(model_folder(model)), "onnx": f"onnx:{made.folder}"}
        cold: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
        for place in range(STARTS):
            for kind in _alternate(place):
                cold[kind].append(await _measure_cold_start(names[kind]))
            progress("cold starts", place + 1, STARTS)
        warm = {kind: await _open_warm_embedder(names[kind]) for kind in KINDS}
        asked = await _queries(warm, queries, progress)
        rates = await _batches(warm, progress)
    return {
        "model": model,
        "queries": queries,
        "least_cosine": made.least_cosine,
        "kinds": {kind: {**asked[kind], **rates[kind], **_measure_starts(cold[kind])} for kind in KINDS},
        "machine": machine(),
        "load": load(),
    }


def _export(model: str, folder: Path) -> Any:
    # Heavy: it imports torch.
    from mnemosyne import export_model

    return export_model(model, folder)


async def _measure_cold_start(name: str) -> dict[str, float]:
    done = await anyio.run_process([sys.executable, "-c", _COLD, name], stderr=None)
    found: dict[str, float] = json.loads(done.stdout.decode().splitlines()[-1])
    return found


def _measure_starts(starts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {
        "cold_seconds": statistics.median(each["seconds"] for each in starts),
        "memory_mb": statistics.median(each["memory_mb"] for each in starts),
    }


async def _open_warm_embedder(name: str) -> Embedder:
    embedder = await to_thread.run_sync(open_embedder, name)
    if embedder is None:
        raise RuntimeError(f"{name!r} names no embedder")
    await embedder.warm()
    return embedder


async def _queries(warm: Mapping[str, Embedder], count: int, progress: Progress) -> dict[str, dict[str, float]]:
    """Return milliseconds for one query, median and p95, and of processor time."""
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    worked: dict[str, list[float]] = {kind: [] for kind in KINDS}
    english = islice((text for text in questions(10 * (count + WARM), SEED) if text.isascii()), count + WARM)
    for place, text in enumerate(english):
        for kind in _alternate(place):
            began, rested = perf_counter(), process_time()
            await warm[kind].embed([text], "query")
            if place >= WARM:
                times[kind].append((perf_counter() - began) * 1000)
                worked[kind].append((process_time() - rested) * 1000)
        progress("queries", place + 1, count + WARM)
    found = {}
    for kind in KINDS:
        median, most = percentiles(times[kind], 50, 95)
        found[kind] = {
            "query_p50_ms": median,
            "query_p95_ms": most,
            "query_processor_ms": statistics.median(worked[kind]),
        }
    return found


async def _batches(warm: Mapping[str, Embedder], progress: Progress) -> dict[str, dict[str, float]]:
    """Return documents a second of processor time and of the clock."""
    texts = [text for text in utterances(4 * BATCHES * BATCH_TEXTS, SEED) if text.isascii()]
    times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for place in range(BATCHES):
        part = texts[place * BATCH_TEXTS : (place + 1) * BATCH_TEXTS]
        for kind in _alternate(place):
            began, rested = perf_counter(), process_time()
            await warm[kind].embed(part, "document")
            times[kind].append((perf_counter() - began, process_time() - rested))
        progress("batches", place + 1, BATCHES)
    return {
        kind: {
            "documents_per_second": BATCH_TEXTS / statistics.median(wall for wall, _ in times[kind]),
            "documents_per_processor_second": BATCH_TEXTS / statistics.median(work for _, work in times[kind]),
        }
        for kind in KINDS
    }


def _alternate(place: int) -> Sequence[str]:
    return KINDS if place % 2 == 0 else KINDS[::-1]


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print both forms and how many times better the export is."""
    where = figures["machine"]
    console.print(
        Text(
            f"{where['cpu']}, {where['cores']} cores, {where['memory_gb']} GB, load {figures['load']}; "
            f"{figures['model']}, {figures['queries']} queries; cosine of the vectors at least {figures['least_cosine']:.6f}"
        )
    )
    table = Table(title="one model in two forms, one thread each", title_justify="left")
    for name in ("measure", *KINDS, "ratio"):
        table.add_column(name, justify="left" if name == "measure" else "right")
    torch, onnx = (figures["kinds"][kind] for kind in KINDS)
    for name, label, more in (
        ("query_p50_ms", "query, p50 ms", False),
        ("query_p95_ms", "query, p95 ms", False),
        ("query_processor_ms", "query, processor ms", False),
        ("documents_per_second", f"documents a second, by {BATCH_TEXTS}", True),
        ("documents_per_processor_second", "documents a processor second", True),
        ("cold_seconds", "fresh process to first vector, s", False),
        ("memory_mb", "memory of that process, MB", False),
    ):
        ratio = onnx[name] / torch[name] if more else torch[name] / onnx[name]
        table.add_row(*map(Text, (label, f"{torch[name]:.1f}", f"{onnx[name]:.1f}", f"{ratio:.1f}x")))
    console.print(table)
