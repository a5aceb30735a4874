"""One fresh process: makes and publishes the index of a world, or opens a host over it, and prints as JSON what that took.

`python -m benchmarks.snapshots.child ORDER`: the order as JSON. Vectors are made up from the texts, so that each process makes the
same ones, and embedding costs next to nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Literal

import anyio
import numpy as np

from benchmarks.conversation import questions, utterances
from evals.reporting.figures import percentiles
from evals.reporting.machine import memory_mb, peak_memory_mb
from jacquard.wiring.process_tuning import ProcessTuning
from mnemosyne import CalibratedEstimator, Chain, MemoryEntry, RetrievalQuery, SqliteStore
from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.retrieval.snapshots.cache import SnapshotCache
from mnemosyne.retrieval.snapshots.library import SnapshotLibrary
from mnemosyne.retrieval.snapshots.publish import publish_snapshot
from mnemosyne.retrieval.snapshots.storage import FolderStorage
from mnemosyne.schema.query import IndexFilter

SEED, WIDTH, NEAREST = 31, 384, 50
WORLD, SCOPE = "atlas", "world:atlas"
_CENTRES, _NOISE = 4_000, 0.9
_EXACT_QUERIES = 20
_CHANGED_OF = 100
_CACHE_BYTES = 100 * 10**9


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """Order to a process; everything is below `folder`."""

    step: Literal["store", "change", "publish", "host"]
    """`store` (write the world), `change` (one entry in a hundred gets another text), `publish` (make the index and
    publish it) or `host` (open the published one).
    """
    folder: str
    entries: int
    queries: int
    host: str = "host"
    """Folder of a host."""


class VectorsOfTexts:
    """An embedder whose vector of a text lies near one of 4,000 centres; both are drawn by the hash of the text."""

    name = "made-up-of-texts"

    def __init__(self) -> None:
        self.embedded = 0
        self._centres = np.random.default_rng(SEED).standard_normal((_CENTRES, WIDTH), dtype=np.float32)

    async def warm(self) -> None:
        """Do nothing: there is no model."""

    async def fitness(self, text: str) -> float:
        """Return 1: every text has a vector."""
        return 1.0

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return the vectors of some texts, of length 1, one row each; documents are counted."""
        self.embedded += len(texts) if purpose == "document" else 0
        return self.vectors_of(texts)

    def vectors_of(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of some texts."""
        rows = np.empty((len(texts), WIDTH), dtype=np.float32)
        for place, text in enumerate(texts):
            seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
            own = np.random.default_rng(seed).standard_normal(WIDTH, dtype=np.float32)
            rows[place] = self._centres[seed % _CENTRES] + np.float32(_NOISE) * own
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


@asynccontextmanager
async def _opened(order: Order) -> AsyncIterator[tuple[SqliteStore, TieredIndex, HybridRetriever, VectorsOfTexts]]:
    """Give the store, an index, what recalls from them, and the embedder."""
    base = Path(order.folder)
    store, made, library = SqliteStore(base / "store.db"), VectorsOfTexts(), None
    if order.step == "host":
        cache = SnapshotCache(base / order.host / "cache", most_bytes=_CACHE_BYTES)
        library = SnapshotLibrary(
            store, FolderStorage(base / "published"), cache, can_search=lambda name: name == made.name
        )
    index = TieredIndex(base / order.host / "index", snapshots=library)
    retriever = HybridRetriever(
        store,
        index,
        made,
        CalibratedEstimator(),
        vector_patience_seconds=60.0,
    )
    try:
        yield store, index, retriever, made
    finally:
        await index.close()
        await store.close()


async def carry_out(order: Order) -> dict[str, Any]:
    """Do what an order says; return the figures."""
    if order.step in ("store", "change"):
        return await _write_world(order)
    figures: dict[str, Any] = {}
    base = Path(order.folder)
    async with _opened(order) as (store, index, retriever, made):
        before = memory_mb()
        if order.step == "publish":
            (base / "published").mkdir()
            await _clock(figures, "sync", lambda: retriever.sync(SCOPE))
            into, at, storage = retriever.index_into, datetime.now(UTC), FolderStorage(base / "published")
            await _clock(
                figures,
                "publish",
                lambda: publish_snapshot(store, index, storage, SCOPE, encoder=made.name, index_into=into, at=at),
            )
        else:
            await _clock(figures, "open", lambda: index.count(SCOPE))
            await _clock(figures, "sync", lambda: retriever.sync(SCOPE))
        figures |= {"embedded": made.embedded, "memory_mb": memory_mb() - before, "peak_mb": peak_memory_mb()}
        figures |= {"engine": await index.engine_of(SCOPE), "snapshot": index.snapshot_of(SCOPE)}
        figures |= await _measure_recalls(order, retriever)
        figures["found"] = await _measure_found(order, store, index, made)
    return figures


async def _write_world(order: Order) -> dict[str, Any]:
    store, version = SqliteStore(Path(order.folder) / "store.db"), int(order.step == "change")
    try:
        figures: dict[str, Any] = {}
        lore = list(_entries(order.entries, version))
        await _clock(figures, "write", lambda: store.replace_world(WORLD, f"v{version}", lore, None))
        return figures
    finally:
        await store.close()


async def _clock(figures: dict[str, Any], name: str, work: Callable[[], Awaitable[object]]) -> None:
    """Do some work and add what it took: seconds, and seconds of the processor."""
    began, worked = perf_counter(), process_time()
    await work()
    figures[f"{name}_seconds"] = perf_counter() - began
    figures[f"{name}_processor"] = process_time() - worked


async def _measure_recalls(order: Order, retriever: HybridRetriever) -> dict[str, Any]:
    times = list[float]()
    tuning = ProcessTuning()
    tuning.tune()
    for text in islice(questions(order.queries, SEED), order.queries):
        began = perf_counter()
        query = RetrievalQuery(text=text, world_id=WORLD, session_id="none", lineage=(), depth=0)
        recall = await retriever.recall(query)
        times.append((perf_counter() - began) * 1000)
        if not recall.candidates:
            raise RuntimeError(f"recall found nothing for {text!r}")
    tuning.release()
    # The first opens files; it has its own column.
    median, most = percentiles(times[1:], 50, 95)
    return {"first_ms": times[0], "recall_p50_ms": median, "recall_p95_ms": most}


async def _measure_found(order: Order, store: SqliteStore, index: TieredIndex, made: VectorsOfTexts) -> float:
    """Return the share of the true nearest 50 that the index finds."""
    version = int(await store.world_digest(WORLD) == "v1")
    texts = {each.entry_id: each.text for each in _entries(order.entries, version)}
    names, rows = list(texts), made.vectors_of(list(texts.values()))
    shares = []
    for text in questions(_EXACT_QUERIES, SEED + 1):
        vector = made.vectors_of([text])[0]
        nearest = {names[place] for place in np.argsort(-(rows @ vector))[:NEAREST].tolist()}
        where = IndexFilter(scope=SCOPE, chains=frozenset({Chain.LORE}))
        hits = await index.search_vector(vector, where, NEAREST, model=made.name)
        shares.append(len(nearest.intersection(hits.entry_ids)) / NEAREST)
    return float(np.mean(shares))


def _entries(count: int, version: int) -> Iterator[MemoryEntry]:
    for place, text in enumerate(utterances(count, SEED)):
        note = f" ({place}, told otherwise)" if version and place % _CHANGED_OF == 0 else f" ({place})"
        yield MemoryEntry(entry_id=f"e{place:07d}", scope=SCOPE, chain=Chain.LORE, kind="note", text=text + note)


def order_json(order: Order) -> str:
    """Return an order as the argument of this program."""
    return json.dumps(asdict(order))


if __name__ == "__main__":
    print(json.dumps(anyio.run(carry_out, Order(**json.loads(sys.argv[1])))))
