"""A host that searches a published snapshot finds what a host with an index of its own finds, whatever has changed since."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recall_parts import WORLD, LetterEmbedder
from snapshot_parts import TIERS, Host, copy_store, files_of, host, publish, published, tale, write_world

from mnemosyne import CalibratedEstimator
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.retrieval.snapshots.publish import publish_snapshot
from mnemosyne.retrieval.snapshots.storage import FolderStorage

pytestmark = pytest.mark.anyio
QUERIES = ("goat", "the boat by the rain", "number 7", "lamp bell roof", "mill")
each_tier = pytest.mark.parametrize("tier", [*TIERS])


async def finds(of: Host) -> list[list[tuple[str, float]]]:
    await of.retriever.sync(WORLD)
    return [await of.recall(query) for query in QUERIES]


async def finds_of_its_own(folder: Path, tier: str = "memory") -> list[list[tuple[str, float]]]:
    """Return what a host with the same store and an index of its own finds."""
    copy_store(folder / "host", folder / "alone")
    async with host(folder / "alone", tier=tier) as alone:
        return await finds(alone)


@each_tier
async def test_a_host_searches_the_snapshot_and_embeds_nothing(tmp_path: Path, tier: str) -> None:
    storage = FolderStorage(tmp_path / "published")
    made = await published(tmp_path / "worker", storage, tale(0, 40))
    assert made.rows == 40
    assert made.encoder == "letters"
    assert made.world_digest == "v1"
    async with host(tmp_path / "host", storage, tier=tier) as one:
        await write_world(one.store, tale(0, 40), "v1")
        found = await finds(one)
        assert set(one.embedder.embedded).isdisjoint(each.text for each in tale(0, 40))
        assert await one.degradations() == []
        assert one.index.snapshot_of(WORLD)
    assert found == await finds_of_its_own(tmp_path, tier)
    assert not list((tmp_path / "host" / "index").glob("*.lance"))


@each_tier
async def test_an_old_snapshot_is_searched_with_what_has_changed(tmp_path: Path, tier: str) -> None:
    storage = FolderStorage(tmp_path / "published")
    await published(tmp_path / "worker", storage, tale(0, 40))
    later = [*tale(0, 5), *tale(8, 20), *tale(28, 12, "sleeps behind the"), *tale(50, 3)]
    async with host(tmp_path / "host", storage, tier=tier) as one:
        await write_world(one.store, later, "v2")
        await one.index.count(WORLD)
        # Before what is lacking was brought in, and afterwards.
        assert await one.degradations() == ["snapshot_old", "index_behind"]
        found = await finds(one)
        assert await one.degradations() == ["snapshot_old"]
        embedded = {text for text in one.embedder.embedded if "number" in text}
        assert embedded == {each.text for each in (*tale(28, 12, "sleeps behind the"), *tale(50, 3))} | {"number 7"}
    assert found == await finds_of_its_own(tmp_path, tier)


@each_tier
async def test_the_world_changes_while_it_is_searched(tmp_path: Path, tier: str) -> None:
    storage = FolderStorage(tmp_path / "published")
    await published(tmp_path / "worker", storage, tale(0, 40))
    async with host(tmp_path / "host", storage, tier=tier) as one:
        await write_world(one.store, tale(0, 40), "v1")
        await finds(one)
        await write_world(one.store, tale(3, 45), "v2")
        found = await finds(one)
        assert await one.degradations() == ["snapshot_old"]
        assert "e0" not in [name for name, _ in await one.recall("goat stands by the goat number 0")]
    assert found == await finds_of_its_own(tmp_path, tier)


@each_tier
async def test_a_newer_snapshot_takes_the_place_of_an_older_one(tmp_path: Path, tier: str) -> None:
    storage = FolderStorage(tmp_path / "published")
    async with host(tmp_path / "worker") as worker, host(tmp_path / "host", storage, tier=tier) as one:
        for store in (worker.store, one.store):
            await write_world(store, tale(0, 40), "v1")
        await publish(worker, storage)
        await finds(one)
        for store in (worker.store, one.store):
            await write_world(store, tale(2, 40), "v2")
        await finds(one)
        assert await one.degradations() == ["snapshot_old"]
        second = await publish(worker, storage)
        found = await finds(one)
        assert await one.degradations() == []
        assert one.index.snapshot_of(WORLD) == second.snapshot_id
    assert found == await finds_of_its_own(tmp_path, tier)


@each_tier
async def test_a_worker_publishes_on_from_a_snapshot(tmp_path: Path, tier: str) -> None:
    storage = FolderStorage(tmp_path / "published")
    await published(tmp_path / "first", storage, tale(0, 40))
    async with host(tmp_path / "second", storage, tier=tier) as worker:
        await write_world(worker.store, tale(5, 40), "v2")
        made = await publish(worker, storage)
        assert made.rows == 40
        assert set(worker.embedder.embedded) == {each.text for each in tale(40, 5)}
    async with host(tmp_path / "host", storage, tier=tier) as one:
        await write_world(one.store, tale(5, 40), "v2")
        found = await finds(one)
        assert await one.degradations() == []
    assert found == await finds_of_its_own(tmp_path, tier)


async def test_sequences_of_another_store_do_not_hide_later_changes(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "published")
    async with host(tmp_path / "worker") as worker:
        for version in range(5):
            await write_world(worker.store, tale(version, 40), f"v{version}")
        await write_world(worker.store, tale(0, 40), "now")
        await publish(worker, storage)
    async with host(tmp_path / "host", storage) as one:
        await write_world(one.store, tale(0, 40), "now")
        await finds(one)
        await write_world(one.store, tale(0, 41), "next")
        await one.retriever.sync(WORLD)
        assert (await one.recall("goat stands by the lamp number 40"))[0][0] == "e40"


async def test_an_index_without_files_is_published_from_the_store(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "published")
    async with host(tmp_path / "host", storage) as one:
        await write_world(one.store, tale(0, 30), "v1")
        index = MemoryIndex()
        worker = HybridRetriever(one.store, index, LetterEmbedder(), CalibratedEstimator())
        await worker.sync(WORLD)
        at, into = datetime(2026, 11, 1, tzinfo=UTC), worker.index_into
        made = await publish_snapshot(one.store, index, storage, WORLD, encoder="letters", index_into=into, at=at)
        assert made.rows == 30
        found = await finds(one)
        assert one.index.snapshot_of(WORLD) == made.snapshot_id
    assert found == await finds_of_its_own(tmp_path)


async def test_a_dropped_scope_is_made_from_the_store(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "published")
    await published(tmp_path / "worker", storage, tale(0, 20))
    async with host(tmp_path / "host", storage) as one:
        await write_world(one.store, tale(0, 20), "v1")
        await finds(one)
        await one.retriever.rebuild(WORLD, force=True)
        assert not one.index.snapshot_of(WORLD)
        assert await one.index.count(WORLD) == 20
        assert await one.degradations() == []


async def test_vectors_of_another_encoder_serve_until_the_next_snapshot(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "published")
    await published(tmp_path / "worker", storage, tale(0, 20))
    newer = LetterEmbedder("vowels", "aeiou")
    async with host(tmp_path / "host", storage, embedder=newer, knows=["letters"]) as one:
        await write_world(one.store, tale(0, 20), "v1")
        await one.retriever.sync(WORLD)
        assert await one.degradations() == ["encoder_changed"]
        assert newer.embedded == []
    async with host(tmp_path / "other", storage, embedder=newer) as one:
        await write_world(one.store, tale(0, 20), "v1")
        assert set(await one.degradations()) == {"encoder_missing", "no_vectors"}
        await one.retriever.sync(WORLD)
        assert not one.index.snapshot_of(WORLD)
        assert len(newer.embedded) >= 20


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kept=st.sets(st.integers(0, 19)),
    changed=st.sets(st.integers(0, 19)),
    added=st.integers(0, 4),
    tier=st.sampled_from([*TIERS]),
)
async def test_any_change_since_is_applied(tmp_path_factory, kept, changed, added, tier) -> None:
    folder = tmp_path_factory.mktemp("any")
    storage = FolderStorage(folder / "published")
    await published(folder / "worker", storage, tale(0, 20))
    lore = [tale(each, 1, "hides under the" if each in changed else "stands by the")[0] for each in sorted(kept)]
    lore += tale(30, added)
    async with host(folder / "host", storage, tier=tier) as one:
        await write_world(one.store, lore, "later")
        found = await finds(one)
        assert await one.index.count(WORLD) == len(lore)
    assert found == await finds_of_its_own(folder, tier)


async def test_no_file_of_a_snapshot_is_written_by_a_host(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "published")
    await published(tmp_path / "worker", storage, tale(0, 40))
    async with host(tmp_path / "host", storage, tier="large") as one:
        await write_world(one.store, tale(0, 40), "v1")
        await finds(one)
        names = [each for each in files_of(tmp_path / "host" / "cache") if ".use-" not in each.name]
        before = {each: each.read_bytes() for each in names}
        await write_world(one.store, tale(10, 40), "v2")
        await finds(one)
        after = {each: each.read_bytes() for each in files_of(tmp_path / "host" / "cache") if ".use-" not in each.name}
    assert before == after
