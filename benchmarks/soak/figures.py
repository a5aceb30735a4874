"""The figures of a soak: a row a window, and for each quantity whether it is flat. Pure but for printing and the plot.

A quantity is flat where its slope over the windows of a part, without the first quarter of them (at most `WARM_WINDOWS`), is within
noise: less than twice its standard error, or less than `SMALL_DRIFT` of its mean over the whole part. Disk grows with what is
kept; what is asked of it is that a turn does not need more of it than one before. Memory is judged without the index of open
sessions, which grows with their messages up to its bound; it says itself how many bytes it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.reporting.machine import load, machine

WARM_WINDOWS = 12
"""Caches fill, and every session writes to its table for the first time, which is when LanceDB takes memory of its own."""
SMALL_DRIFT = 0.05
FLAT = ("prepare_ms", "prepare_p99_ms", "commit_ms", "processor_ms", "rest_mb", "handles", "threads")
GROWING = ("store_mb", "index_mb", "index_files")
SHOWN = ("turns", *FLAT[:4], "memory_mb", "open_mb", *FLAT[4:], *GROWING)
SHOWN_ROWS = 25
_HEADS = ("turns", "prep", "p99", "comm", "proc", "MB", "open", "rest", "hand", "thr", "store", "index", "files")


def figures_of(
    rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], failures: Sequence[str]
) -> dict[str, Any]:
    """Return the rows, the drift of each quantity by part, and what went wrong."""
    parts = sorted({row["part"] for row in rows})
    drifts = []
    for part in parts:
        windows = [row for row in rows if row["part"] == part]
        chosen = windows[min(WARM_WINDOWS, len(windows) // 4) :]
        if len(chosen) >= 3:
            drifts += [{"part": part, **_drift(name, chosen)} for name in FLAT]
            drifts += [{"part": part, **_drift(name, _per_turn(name, chosen))} for name in GROWING]
    return {
        "settings": dict(settings),
        "rows": list(rows),
        "drifts": drifts,
        "failures": list(failures),
        "machine": machine(),
        "load": load(),
    }


def _per_turn(name: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what each window added, by turn."""
    return [
        {"turns": after["turns"], name: (after[name] - before[name]) / (after["turns"] - before["turns"])}
        for before, after in pairwise(rows)
    ]


def _drift(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return by how much a quantity changes over the rows, as a share of its mean, and whether that is within noise."""
    turns = np.array([row["turns"] for row in rows], dtype=float)
    values = np.array([row[name] for row in rows], dtype=float)
    span, mean = float(turns[-1] - turns[0]), float(values.mean())
    slope, level = np.polyfit(turns, values, 1)
    rest = values - (slope * turns + level)
    spread = float(np.sqrt((rest**2).sum() / max(1, len(turns) - 2)) / np.sqrt(((turns - turns.mean()) ** 2).sum()))
    share = float(slope) * span / mean if mean else 0.0
    flat = abs(float(slope)) <= 2 * spread or share <= SMALL_DRIFT
    return {
        "name": name,
        "mean": mean,
        "drift": share,
        "noise": 2 * spread * span / mean if mean else 0.0,
        "flat": flat,
    }


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print an even sample of the rows, the drifts, and what went wrong."""
    rows, where = figures["rows"], figures["machine"]
    said = figures["settings"]
    console.print(
        Text(
            f"{where['cpu']}, {where['cores']} cores, load {figures['load']}; {rows[-1]['turns'] if rows else 0:,} of "
            f"{said['turns']:,} turns over {said['sessions']} sessions, a fault every {said['fault_each']}, "
            f"embedder {said['embedder']}"
        )
    )
    table = Table(
        title="by window: milliseconds of prepare (median, p99), commit and processor; MB of memory, of it the index of "
        "open sessions, and the rest; handles, threads; MB of store and index, files of the index",
        title_justify="left",
        padding=(0, 0),
    )
    for head in _HEADS:
        table.add_column(head, justify="right")
    for row in rows[:: max(1, len(rows) // SHOWN_ROWS)]:
        table.add_row(*(f"{row[column]:,.0f}" if row[column] >= 100 else f"{row[column]:.3g}" for column in SHOWN))
    console.print(table)
    table = Table(title="drift over a part, as a share of the mean", title_justify="left")
    for column in ("part", "quantity", "mean", "drift", "noise", ""):
        table.add_column(column, justify="left" if column in ("quantity", "") else "right")
    for each in figures["drifts"]:
        name = each["name"] + (" a turn" if each["name"] in GROWING else "")
        table.add_row(
            str(each["part"]),
            name.replace("_", " "),
            f"{each['mean']:.4g}",
            f"{each['drift']:+.1%}",
            f"{each['noise']:.1%}",
            "flat" if each["flat"] else "NOT FLAT",
        )
    console.print(table)
    for failure in figures["failures"]:
        console.print(Text(failure, style="red"))
    console.print(Text(f"{len(figures['failures'])} failures", style="bold"))


def plot(figures: Mapping[str, Any], file: Path) -> None:
    """Draw each quantity over the turns; a dashed line is where another process goes on."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    rows = figures["rows"]
    names = SHOWN[1:]
    drawing, axes = pyplot.subplots(len(names), 1, figsize=(10, 2 * len(names)), sharex=True)
    turns = [row["turns"] for row in rows]
    for name, axis in zip(names, axes, strict=True):
        axis.plot(turns, [row[name] for row in rows], linewidth=1)
        axis.set_ylabel(name.replace("_", " "), fontsize=8)
        axis.set_ylim(bottom=0)
        for before, after in pairwise(rows):
            if before["part"] != after["part"]:
                axis.axvline(after["turns"], linestyle="--", linewidth=0.5, color="grey")
    axes[-1].set_xlabel("turns")
    drawing.tight_layout()
    drawing.savefig(file, dpi=100)
    pyplot.close(drawing)
