"""A large world on a host: an index of its own against a published one, at first, after a restart, and when the world has changed.

Each row is a process of its own over one store and one folder of snapshots. Vectors are made up, so embedding, which takes far
longer than all of this, is left out of both sides.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.snapshots.child import Order, order_json
from evals.reporting.machine import load, machine

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]
_STEPS = (
    ("", "store", "worker", "writing a world of {:,} entries"),
    ("own index", "publish", "worker", "making the index of a worker, and publishing it"),
    ("published", "host", "host", "opening it on a host"),
    ("again", "host", "host", "opening it again, after a restart"),
    ("", "change", "worker", "changing one entry in a hundred"),
    ("changed", "host", "host", "opening it when the world has changed"),
)


async def run(entries: int, queries: int, say: Say, progress: Progress) -> dict[str, Any]:
    """Measure in a folder that is removed afterwards; the figures of each process by the name of its row."""
    rows: dict[str, Any] = {}
    async with anyio.TemporaryDirectory(prefix="jacquard-bench-") as folder:
        for name, step, host, said in _STEPS:
            say(said.format(entries))
            order = Order(step=step, folder=folder, entries=entries, queries=queries, host=host)  # type: ignore[arg-type]
            figures = await to_thread.run_sync(_run_child, order)
            if name:
                rows[name] = figures
        size = await to_thread.run_sync(_size_mb, Path(folder, "published"))
    return {
        "entries": entries,
        "queries": queries,
        "rows": rows,
        "published_mb": size,
        "machine": machine(),
        "load": load(),
    }


def _run_child(order: Order) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.snapshots.child", order_json(order)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the process of {order.step!r} failed:\n{done.stderr[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _size_mb(folder: Path) -> float:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file()) / 1e6


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print a row a process."""
    where, rows = figures["machine"], figures["rows"]
    own, published = rows["own index"], rows["published"]
    console.print(
        Text(
            f"{where['cpu']}, {where['cores']} cores, load {figures['load']}; {figures['entries']:,} entries, "
            f"{figures['queries']} recalls a row, embedding left out; published: {figures['published_mb']:,.0f} MB"
        )
    )
    console.print(
        Text(f"the worker: {own['sync_seconds']:.0f} s to make the index, {own['publish_seconds']:.0f} s to publish it")
    )
    table = Table(title="until a host can search, and what it finds", title_justify="left", padding=(0, 0))
    for name in ("host", "in", "seconds", "processor", "embedded", "MB", "peak", "first", "p50", "p95", "found"):
        table.add_column(name, justify="left" if name in ("host", "in") else "right")
    for name, row in rows.items():
        cells = (
            name,
            row["engine"],
            f"{_until_searched(row, 'seconds'):.1f}",
            f"{_until_searched(row, 'processor'):.1f}",
            f"{row['embedded']:,}",
            f"{row['memory_mb']:,.0f}",
            f"{row['peak_mb']:,.0f}",
            f"{row['first_ms']:.0f}",
            f"{row['recall_p50_ms']:.1f}",
            f"{row['recall_p95_ms']:.1f}",
            f"{row['found']:.3f}",
        )
        table.add_row(*map(Text, cells))
    console.print(table)
    times = _until_searched(own, "processor") / _until_searched(published, "processor")
    console.print(Text(f"processor of a host: {times:.1f} times less with a published index"))


def _until_searched(row: Mapping[str, Any], unit: str) -> float:
    """Return what it took until the world could be searched whole; a worker does not open anything."""
    return float(row.get(f"open_{unit}", 0.0) + row[f"sync_{unit}"])
