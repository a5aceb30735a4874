"""The longest time in which the event loop was blocked, while embedding, indexing and disk are made slow.

A ticker sleeps one millisecond at a time beside engines that prepare and commit turns; what it wakes late is a stall.
The embedder sleeps in its thread, every transaction of the store waits on its own, the index takes in thousands of new
entries within the turns. First the machine itself is measured, with nothing else going on.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import numpy as np
from anyio import to_thread
from rich.console import Console

from evals.reporting.progress import OnProgress
from jacquard import CurationConfig, RuntimeConfig, build_bare_world, create_context_engine
from mnemosyne import Chain, MemoryEntry, SqliteStore, TieredIndex, Vectors, world_scope
from mnemosyne.stores.sql.connection import Connection

TICK_SECONDS = 0.001
SESSIONS = 4
_WORDS = (
    *["temple", "key", "forest", "bridge", "river", "wolf", "chief", "lantern", "rune", "door", "mill", "ferry"],
    *["神庙", "钥匙", "森林", "石桥", "灯笼"],
)


class SlowEmbedder:
    """Makes vectors from nothing, and takes its time, in a thread."""

    name = "slow"

    def __init__(self, delay_ms: int) -> None:
        self._delay_ms = delay_ms
        self._random = np.random.default_rng(7)

    async def warm(self) -> None:
        """Nothing to load."""

    async def fitness(self, text: str) -> float:
        """It knows every language alike."""
        return 1.0

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return unit vectors."""
        return await to_thread.run_sync(self._embed, len(texts))

    def _embed(self, count: int) -> Vectors:
        time.sleep(self._delay_ms / 1000)
        made = self._random.standard_normal((count, 384)).astype(np.float32)
        unit: Vectors = made / np.linalg.norm(made, axis=1, keepdims=True)
        return unit


class _SlowRunner:
    def __init__(self, inner: Any, delay_ms: int) -> None:
        self._inner, self._delay_ms = inner, delay_ms

    async def run(self, work: Callable[[Connection], Any]) -> Any:
        def run_slowly(connection: Connection) -> Any:
            time.sleep(self._delay_ms / 1000)
            return work(connection)

        return await self._inner.run(run_slowly)

    async def close(self) -> None:
        await self._inner.close()


def slow_store(file: Path, delay_ms: int) -> SqliteStore:
    """Return a SQLite store whose every transaction waits first, where it works."""
    store = SqliteStore(file)
    store._reads, store._writes = _SlowRunner(store._reads, delay_ms), _SlowRunner(store._writes, delay_ms)
    return store


class Ticker:
    """Notes how late it wakes (`late_ms`)."""

    def __init__(self) -> None:
        self.late_ms: list[float] = []

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Tick as long as the block lasts."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._tick)
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    async def _tick(self) -> None:
        while True:
            start = time.perf_counter()
            await anyio.sleep(TICK_SECONDS)
            self.late_ms.append((time.perf_counter() - start - TICK_SECONDS) * 1000)

    def figures(self) -> dict[str, float]:
        """Return the longest stall, the 99.9th percentile, and how many were longer than 50 ms."""
        late = np.array(self.late_ms or [0.0])
        return {
            "longest_ms": round(float(late.max()), 1),
            "p999_ms": round(float(np.percentile(late, 99.9)), 1),
            "over_50_ms": int((late > 50).sum()),
            "ticks": len(self.late_ms),
        }


async def run(
    turns: int, entries: int, embed_ms: int, disk_ms: int, say: Callable[[str], None], progress: OnProgress
) -> dict[str, Any]:
    """Return the figures of the idle loop and of the busy one."""
    say("the idle loop first, then the busy one")
    idle = Ticker()
    async with idle.watching():
        await anyio.sleep(1.0)
    busy = Ticker()
    with tempfile.TemporaryDirectory() as folder:
        async with busy.watching():
            started = time.perf_counter()
            await _play(Path(folder), turns, entries, embed_ms, disk_ms)
            seconds = time.perf_counter() - started
    return {
        "settings": {
            "sessions": SESSIONS,
            "turns": turns,
            "entries": entries,
            "embed_ms": embed_ms,
            "disk_ms": disk_ms,
        },
        "seconds": round(seconds, 1),
        "idle": idle.figures(),
        "busy": busy.figures(),
    }


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print the figures."""
    asked = figures["settings"]
    console.print(
        f"{asked['sessions']} sessions of {asked['turns']} turns, {asked['entries']} entries indexed in them, embedding "
        f"+{asked['embed_ms']} ms, each transaction +{asked['disk_ms']} ms: {figures['seconds']} s"
    )
    for name in ("idle", "busy"):
        shown = figures[name]
        console.print(
            f"  {name}: longest stall {shown['longest_ms']} ms, 99.9 % under {shown['p999_ms']} ms, "
            f"{shown['over_50_ms']} over 50 ms ({shown['ticks']} ticks)"
        )


async def _play(folder: Path, turns: int, entries: int, embed_ms: int, disk_ms: int) -> None:
    store = slow_store(folder / "store.db", disk_ms)
    index = TieredIndex(folder / "index")
    world = build_bare_world("stalls")
    config = RuntimeConfig(curation=CurationConfig(deadline_ms=400))
    chance = random.Random(7)
    try:
        async with create_context_engine(
            store, config=config, world=world, embedder=SlowEmbedder(embed_ms), index=index
        ) as engine:
            lore = await to_thread.run_sync(_lore, world.world_id, entries, chance)
            await store.replace_world(world.world_id, "lore", lore)

            async def play(session_id: str) -> None:
                for number in range(turns):
                    words = " ".join(chance.choices(_WORDS, k=12))
                    await engine.prepare_turn(session_id, f"{number}: {words}?")
                    await engine.commit_assistant_message(session_id, f"<content>{words}</content>")

            async with anyio.create_task_group() as group:
                for number in range(SESSIONS):
                    group.start_soon(play, f"s{number}")
            await engine.settle(30)
    finally:
        await index.close()
        await store.close()


def _lore(world_id: str, count: int, chance: random.Random) -> list[MemoryEntry]:
    return [
        MemoryEntry(
            entry_id=f"lore_{number}",
            scope=world_scope(world_id),
            chain=Chain.LORE,
            kind="encyclopedia",
            title=f"Entry {number}",
            text=" ".join(chance.choices(_WORDS, k=60)),
        )
        for number in range(count)
    ]
