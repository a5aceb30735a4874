"""A world in a store, its index, and hosts that open its snapshots; shared by the tests of snapshots."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from recall_parts import WORLD, LetterEmbedder, entry, question

from mnemosyne import CalibratedEstimator, MemoryEntry, SqliteStore
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.retrieval.snapshots.cache import SnapshotCache
from mnemosyne.retrieval.snapshots.library import SnapshotLibrary
from mnemosyne.retrieval.snapshots.manifest import Manifest
from mnemosyne.retrieval.snapshots.publish import publish_snapshot
from mnemosyne.retrieval.snapshots.storage import SnapshotStorage

TIERS = {"memory": {}, "large": {"memory_rows": 5}}
WORDS = ("goat", "bread", "boat", "rain", "lamp", "bell", "roof", "well", "oak", "mill")
_CLOCK = iter(datetime(2026, 11, 1, tzinfo=UTC) + timedelta(minutes=each) for each in range(100_000))


def tale(first: int, count: int, note: str = "stands by the") -> list[MemoryEntry]:
    """Return entries of the world, each with words of its own."""
    return [
        entry(f"e{number}", f"The {WORDS[number % 10]} {note} {WORDS[(number // 10) % 10]} number {number}.")
        for number in range(first, first + count)
    ]


@dataclass(kw_only=True)
class Host:
    """A store with an index folder of its own, and what recalls from them."""

    store: SqliteStore
    index: TieredIndex
    retriever: HybridRetriever
    embedder: LetterEmbedder
    library: SnapshotLibrary | None

    async def recall(self, text: str) -> list[tuple[str, float]]:
        found = await self.retriever.recall(question(text, session_id="none"))
        return [(each.entry_id, round(each.score, 4)) for each in found.candidates]

    async def degradations(self, text: str = "goat") -> list[str]:
        found = await self.retriever.recall(question(text, session_id="none"))
        return [each.partition(":")[0] for each in found.degradations]


async def write_world(store: SqliteStore, lore: Sequence[MemoryEntry], digest: str) -> None:
    await store.replace_world("forest", digest, lore, None)


@asynccontextmanager
async def host(
    folder: Path,
    storage: SnapshotStorage | None = None,
    *,
    store: Path | None = None,
    tier: str = "memory",
    cache: Path | None = None,
    embedder: LetterEmbedder | None = None,
    knows: Sequence[str] = (),
    most_bytes: int = 10**9,
) -> AsyncIterator[Host]:
    """Open a host; `store` is the file of a store that it shares with others, `knows` names more encoders that it can open."""
    opened, made = SqliteStore(store or folder / "store.db"), embedder or LetterEmbedder()
    library = None
    if storage is not None:
        library = SnapshotLibrary(
            opened,
            storage,
            SnapshotCache(cache or folder / "cache", most_bytes=most_bytes),
            can_search=lambda name: name in (made.name, *knows),
            check_seconds=0.0,
        )
    index = TieredIndex(folder / "index", snapshots=library, **TIERS[tier])  # type: ignore[arg-type]
    retriever = HybridRetriever(
        opened,
        index,
        made,
        CalibratedEstimator(),
        inline_vectors=0,
        open_former=lambda name: LetterEmbedder(name) if name in knows else None,
    )
    try:
        yield Host(store=opened, index=index, retriever=retriever, embedder=made, library=library)
    finally:
        await index.close()
        await opened.close()


async def publish(of: Host, storage: SnapshotStorage) -> Manifest:
    """Bring the index of the world up to date and publish it."""
    await of.retriever.sync(WORLD)
    into, encoder = of.retriever.index_into, of.embedder.name
    return await publish_snapshot(of.store, of.index, storage, WORLD, encoder=encoder, index_into=into, at=next(_CLOCK))


async def published(
    folder: Path, storage: SnapshotStorage, lore: Sequence[MemoryEntry], digest: str = "v1"
) -> Manifest:
    """Publish a snapshot of a world from a worker of its own."""
    async with host(folder) as worker:
        await write_world(worker.store, lore, digest)
        return await publish(worker, storage)


def files_of(folder: Path) -> list[Path]:
    return sorted(each for each in folder.rglob("*") if each.is_file())


def copy_store(of: Path, to: Path) -> None:
    """Give a host the store of another, so that they are two stores with the same content."""
    to.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(of / "store.db", to / "store.db")
