"""Cost of a recall among a thousand entries and among a million, without the embedding of the query.

Made-up talk in both languages with made-up vectors (noisy clusters, which are hard for a graph) goes through the tiered
index as a store's would; every size gets its own folder. With the times it prints the loss of the approximate search
against an exact scan, the cost of an added entry until it is found, and the memory.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Literal

import anyio
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.conversation import GUIDE, PLAYER, questions, utterances
from evals.reporting.figures import percentiles
from evals.reporting.machine import load, machine, memory_mb
from jacquard.wiring.process_tuning import ProcessTuning
from mnemosyne import CalibratedEstimator, Chain, MemoryEntry, RetrievalQuery
from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.entry_list import EntryList
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.schema.memory import session_scope
from mnemosyne.schema.query import IndexFilter
from mnemosyne.schema.record import SequencedEntry
from mnemosyne.schema.session import BranchSpan

SEED = 7
WIDTH = 384
NEAREST = 50
MODEL = "made-up"
_SCOPE = session_scope("talk")
_BATCH = 10_000
_SETTLE_ROWS = 500_000
_CLUSTERS = 4_000
_NOISE = 0.9
_ADDS = 20

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


class MadeUpVectors:
    """An embedder whose vectors lie near one of 4,000 centres, drawn by seed; queries cost nothing."""

    name = MODEL

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._centres = self._random.standard_normal((_CLUSTERS, WIDTH), dtype=np.float32)

    async def warm(self) -> None:
        """Do nothing: there is no model."""

    async def fitness(self, text: str) -> float:
        """Return 1: every text has a vector."""
        return 1.0

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return one drawn vector a text."""
        return self.draw(len(texts))

    def draw(self, count: int) -> Vectors:
        """Return `count` vectors of length 1."""
        own = self._random.standard_normal((count, WIDTH), dtype=np.float32)
        rows = self._centres[self._random.integers(0, _CLUSTERS, count)] + np.float32(_NOISE) * own
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


@dataclass(kw_only=True, slots=True)
class Side:
    """One size, filled: the index, what it was filled with, and how long that took."""

    rows: int
    index: TieredIndex
    source: EntryList
    vectors: list[Vectors]
    fill_seconds: float
    settle_seconds: float
    memory_mb: float


async def measure(
    sizes: Sequence[int], *, queries: int, memory_rows: int, say: Say, progress: Progress, folder: Path
) -> dict[str, Any]:
    """Fill an index of each size below `folder`, ask it, and return the figures; bigger ones are searched on disk."""
    rows = []
    for size in sizes:
        say(f"filling an index of {size:,} entries")
        made = MadeUpVectors(SEED)
        side = await _fill(size, made, TieredIndex(folder / str(size), memory_rows=memory_rows), progress)
        # As an engine's `warm()` sets a process before the first turn.
        tuning = ProcessTuning()
        tuning.tune()
        try:
            rows.append(await _measure_recalls(side, made, queries, progress))
        finally:
            tuning.release()
            await side.index.close()
    return {"queries": queries, "width": WIDTH, "sizes": rows, "machine": machine(), "load": load()}


async def _fill(size: int, made: MadeUpVectors, index: TieredIndex, progress: Progress) -> Side:
    source, vectors = EntryList(), list[Vectors]()
    before, began, settling, done, settled = memory_mb(), perf_counter(), 0.0, 0, 0
    texts = utterances(size, SEED)
    while batch := list(_entries(texts, done)):
        source.append(batch)
        rows = made.draw(len(batch))
        vectors.append(rows)
        items = [SequencedEntry(sequence=done + place, entry=one) for place, one in enumerate(batch, start=1)]
        await index.add(_SCOPE, items, rows, model=MODEL)
        done += len(batch)
        if done - settled >= _SETTLE_ROWS:
            settling, settled = settling + await _settle(index), done
        progress(f"filling {size:,}", done, size)
    settling += await _settle(index)
    return Side(
        rows=size,
        index=index,
        source=source,
        vectors=vectors,
        fill_seconds=perf_counter() - began - settling,
        settle_seconds=settling,
        memory_mb=memory_mb() - before,
    )


async def _settle(index: TieredIndex) -> float:
    began = perf_counter()
    await index.maintain()
    return perf_counter() - began


async def _measure_recalls(side: Side, made: MadeUpVectors, queries: int, progress: Progress) -> dict[str, Any]:
    recalling = HybridRetriever(side.source, side.index, made, CalibratedEstimator(), vector_patience_seconds=60.0)
    times, worked = list[float](), list[float]()
    for place, text in enumerate(islice(questions(queries + 3, SEED), queries + 3)):
        began, rested = perf_counter(), process_time()
        recall = await recalling.recall(_query(text, side.rows))
        # The first few open files and fill caches.
        if place >= 3:
            times.append((perf_counter() - began) * 1000)
            worked.append((process_time() - rested) * 1000)
        if not recall.candidates:
            raise RuntimeError(f"recall found nothing for {text!r} among {side.rows} entries")
        progress(f"asking {side.rows:,}", place + 1, queries + 3)
    found, exact_ms = await _measure_found_share(side, made, min(queries, 20))
    adds = await _measure_adds(side, made, recalling)
    median, most = percentiles(times, 50, 95)
    return {
        "rows": side.rows,
        "engine": await side.index.engine_of(_SCOPE),
        "recall_p50_ms": median,
        "recall_p95_ms": most,
        "recall_processor_ms": statistics.median(worked),
        "vector_found": found,
        "vector_scan_ms": exact_ms,
        "add_ms": statistics.median(adds),
        "fill_seconds": side.fill_seconds,
        "settle_seconds": side.settle_seconds,
        "memory_mb": side.memory_mb,
    }


async def _measure_found_share(side: Side, made: MadeUpVectors, queries: int) -> tuple[float, float]:
    """Return the share of the true nearest 50 that the index finds, and what the exact scan took (median, ms)."""
    where = IndexFilter(scope=_SCOPE, chains=frozenset({Chain.HISTORY}), lineage=_line(side.rows))
    shares, times = [], []
    for vector in made.draw(queries):
        began = perf_counter()
        cosines = np.concatenate([part @ vector for part in side.vectors])
        nearest = np.argsort(-cosines)[:NEAREST]
        times.append((perf_counter() - began) * 1000)
        hits = await side.index.search_vector(vector, where, NEAREST, model=MODEL)
        shares.append(len(set(hits.entry_ids) & {_name(place) for place in nearest}) / len(nearest))
    return statistics.mean(shares), statistics.median(times)


async def _measure_adds(side: Side, made: MadeUpVectors, recalling: HybridRetriever) -> list[float]:
    """Return what it takes to add one entry; each must be found by the next recall."""
    times = []
    for number in range(_ADDS):
        one = _entry(side.rows + number, f"The zyxglorb{number} was never seen before.")
        side.source.append([one])
        item = SequencedEntry(sequence=side.rows + number + 1, entry=one)
        began = perf_counter()
        await side.index.add(_SCOPE, [item], made.draw(1), model=MODEL)
        times.append((perf_counter() - began) * 1000)
        recall = await recalling.recall(_query(f"zyxglorb{number}", side.rows + number + 1))
        if one.entry_id not in {each.entry_id for each in recall.candidates}:
            raise RuntimeError(f"an added entry was not found by the next recall ({side.rows} entries)")
    return times


def _entries(texts: Iterator[str], first: int) -> Iterator[MemoryEntry]:
    for place, text in enumerate(islice(texts, _BATCH), start=first):
        yield _entry(place, text)


def _entry(place: int, text: str) -> MemoryEntry:
    speaker = GUIDE if place % 2 else PLAYER
    return MemoryEntry(
        entry_id=_name(place),
        scope=_SCOPE,
        chain=Chain.HISTORY,
        kind="message",
        title=speaker,
        speaker=speaker,
        text=text,
        depth=place // 2 + 1,
        branch_id="main",
    )


def _name(place: int) -> str:
    return f"m{place:07d}"


def _line(rows: int) -> tuple[BranchSpan, ...]:
    return (BranchSpan(branch_id="main", upto_depth=rows),)


def _query(text: str, rows: int) -> RetrievalQuery:
    return RetrievalQuery(text=text, world_id="", session_id="talk", lineage=_line(rows), depth=rows)


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print a row a size."""
    where = figures["machine"]
    console.print(
        Text(
            f"{where['cpu']}, {where['cores']} cores, {where['memory_gb']} GB, load {figures['load']}; "
            f"{figures['queries']} recalls a size, {figures['width']} dimensions, query embedding left out"
        )
    )
    console.print(Text("found: of the true nearest 50 vectors; scan: all vectors in numpy; times in milliseconds"))
    table = Table(title="recall by size", title_justify="left")
    for name in ("entries", "in", "p50", "p95", "processor", "found", "scan", "add", "fill s", "index s", "MB"):
        table.add_column(name, justify="right")
    for row in figures["sizes"]:
        cells = (
            f"{row['rows']:,}",
            row["engine"],
            f"{row['recall_p50_ms']:.1f}",
            f"{row['recall_p95_ms']:.1f}",
            f"{row['recall_processor_ms']:.1f}",
            f"{row['vector_found']:.3f}",
            f"{row['vector_scan_ms']:.1f}",
            f"{row['add_ms']:.1f}",
            f"{row['fill_seconds']:.0f}",
            f"{row['settle_seconds']:.0f}",
            f"{row['memory_mb']:.0f}",
        )
        table.add_row(*map(Text, cells))
    console.print(table)


async def run(sizes: Sequence[int], queries: int, memory_rows: int, say: Say, progress: Progress) -> dict[str, Any]:
    """Measure in a folder that is removed afterwards."""
    async with anyio.TemporaryDirectory(prefix="jacquard-bench-") as folder:
        return await measure(
            sorted(sizes), queries=queries, memory_rows=memory_rows, say=say, progress=progress, folder=Path(folder)
        )
