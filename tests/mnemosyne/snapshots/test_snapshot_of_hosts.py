"""Over one PostgreSQL: what a worker publishes and what hosts add since is embedded once, whoever asks."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from recall_parts import WORLD, LetterEmbedder, question
from snapshot_parts import tale

from mnemosyne import CalibratedEstimator, PostgresStore
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.retrieval.snapshots.cache import SnapshotCache
from mnemosyne.retrieval.snapshots.library import SnapshotLibrary
from mnemosyne.retrieval.snapshots.publish import publish_snapshot
from mnemosyne.retrieval.snapshots.storage import FolderStorage

pytestmark = pytest.mark.anyio


class Lanes(LetterEmbedder):
    """An embedder that answers several calls at a time."""

    lanes = 4


@pytest.mark.parametrize("entries", [30, 700])
async def test_nothing_is_embedded_twice(postgres_url: str, tmp_path: Path, entries: int) -> None:
    storage = FolderStorage(tmp_path / "published")
    embedders = [Lanes() for _ in range(3)]
    stores = [PostgresStore(postgres_url) for _ in embedders]
    retrievers, indexes = [], []
    for place, (store, embedder) in enumerate(zip(stores, embedders, strict=True)):
        cache = SnapshotCache(tmp_path / f"cache{place}", most_bytes=10**9)
        library = SnapshotLibrary(store, storage, cache, can_search=lambda name: True) if place else None
        index = TieredIndex(tmp_path / f"index{place}", segments=store.segments, snapshots=library)
        indexes.append(index)
        retrievers.append(HybridRetriever(store, index, embedder, CalibratedEstimator(), vectors=store.vectors))
    await stores[0].replace_world("forest", "v1", tale(0, entries), None)
    await retrievers[0].sync(WORLD)
    into, at = retrievers[0].index_into, datetime(2026, 11, 1, tzinfo=UTC)
    made = await publish_snapshot(stores[0], indexes[0], storage, WORLD, encoder="letters", index_into=into, at=at)
    assert made.rows == entries
    await stores[0].replace_world("forest", "v2", tale(10, entries), None)
    finds = []
    for retriever, index in zip(retrievers[1:], indexes[1:], strict=True):
        await retriever.sync(WORLD)
        assert index.snapshot_of(WORLD) == made.snapshot_id
        finds.append((await retriever.recall(question("the goat by the boat", session_id="none"))).candidates)
    assert finds[0] == finds[1]
    embedded = [text for each in embedders for text in each.embedded if "number" in text]
    assert sorted(embedded) == sorted(each.text for each in tale(0, entries + 10))
    for index, store in zip(indexes, stores, strict=True):
        await index.close()
        await store.close()
