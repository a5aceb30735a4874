"""Snapshots in a folder and in object storage: torn, damaged and unreachable ones are refused and said, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from anyio import to_thread
from recall_parts import WORLD
from servers.s3_server import S3Server, running_s3
from snapshot_parts import files_of, host, publish, published, tale, write_world

from mnemosyne.core.errors import SnapshotDamagedError, SnapshotError, SnapshotStorageError
from mnemosyne.retrieval.snapshots.manifest import MANIFEST, encode_manifest, read_manifest
from mnemosyne.retrieval.snapshots.publish import delete_snapshots, list_snapshots, publish_snapshot, verify_snapshot
from mnemosyne.retrieval.snapshots.storage import FolderStorage, ObjectStorage, open_storage

pytestmark = pytest.mark.anyio
EPOCH = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_s3() as server:
        yield server


@pytest.fixture(params=["folder", "s3"])
def storage(request, tmp_path: Path):
    if request.param == "folder":
        return FolderStorage(tmp_path / "published")
    return open_storage(request.getfixturevalue("s3").address(tmp_path.name))


def break_file(storage, manifest, name: str, data: bytes | None, server: S3Server | None) -> None:
    """Write other bytes into a file of a snapshot, or remove it."""
    place = f"{next(iter(storage.folders('')))}/{manifest.snapshot_id}/{name}"
    if data is not None:
        storage.put_bytes(place, data)
    elif server is None:
        Path(storage.shown, place).unlink()
    else:
        key = f"{storage.shown.rpartition('/')[2]}/{place}"
        server.client().delete_object(Bucket=server.bucket, Key=key)


def server_of(request) -> S3Server | None:
    return request.getfixturevalue("s3") if "s3" in request.node.callspec.params["storage"] else None


def largest(manifest) -> str:
    return max(manifest.files, key=lambda name: manifest.files[name].size)


async def test_two_hosts_fetch_what_a_worker_has_published(storage, tmp_path: Path) -> None:
    await published(tmp_path / "worker", storage, tale(0, 30))
    found = []
    for name in ("one", "two"):
        async with host(tmp_path / name, storage) as one:
            await write_world(one.store, tale(0, 30), "v1")
            await one.retriever.sync(WORLD)
            found.append(await one.recall("the goat by the boat"))
            assert not [text for text in one.embedder.embedded if "number" in text]
    assert found[0] == found[1]
    assert found[0]


@pytest.mark.parametrize("fault", ["shorter", "changed", "missing", "manifest"])
async def test_a_torn_or_damaged_snapshot_is_refused_and_the_one_before_it_serves(
    storage, tmp_path: Path, fault: str, request
) -> None:
    async with host(tmp_path / "worker") as worker:
        await write_world(worker.store, tale(0, 30), "v1")
        first = await publish(worker, storage)
        await write_world(worker.store, tale(1, 30), "v2")
        second = await publish(worker, storage)
    name = largest(second)
    size = second.files[name].size
    others = {"shorter": bytes(size // 2), "changed": bytes(size), "missing": None}
    broken = (name, others[fault]) if fault in others else (MANIFEST, b'{"torn": ')
    await to_thread.run_sync(break_file, storage, second, *broken, server_of(request))
    async with host(tmp_path / "host", storage) as one:
        await write_world(one.store, tale(1, 30), "v2")
        await one.retriever.sync(WORLD)
        assert await one.degradations() == ["snapshot_damaged", "snapshot_old"]
        assert one.index.snapshot_of(WORLD) == first.snapshot_id
        assert [text for text in one.embedder.embedded if "number" in text] == [tale(30, 1)[0].text]
    if fault != "manifest":
        await to_thread.run_sync(verify_snapshot, storage, first)
        with pytest.raises((SnapshotDamagedError, SnapshotStorageError)):
            await to_thread.run_sync(verify_snapshot, storage, second)


async def test_an_upload_that_was_stopped_is_no_snapshot(storage, tmp_path: Path, request) -> None:
    made = await published(tmp_path / "worker", storage, tale(0, 30))
    await to_thread.run_sync(break_file, storage, made, MANIFEST, None, server_of(request))
    assert [each.fault[:11] for each in await to_thread.run_sync(list_snapshots, storage, WORLD)] == ["no manifest"]
    async with host(tmp_path / "host", storage) as one:
        await write_world(one.store, tale(0, 30), "v1")
        await one.retriever.sync(WORLD)
        assert not one.index.snapshot_of(WORLD)
        assert len([text for text in one.embedder.embedded if "number" in text]) == 30
    assert await to_thread.run_sync(partial(delete_snapshots, storage, WORLD, keep=0)) == (made.snapshot_id,)
    assert await to_thread.run_sync(list_snapshots, storage, WORLD) == ()


async def test_a_publisher_that_fails_leaves_no_manifest(tmp_path: Path) -> None:
    class Failing(FolderStorage):
        def put(self, name: str, file: Path) -> None:
            if name.endswith(".parquet"):
                raise SnapshotStorageError(self.shown, "there is no room")
            super().put(name, file)

    storage = Failing(tmp_path / "published")
    with pytest.raises(SnapshotStorageError, match="no room"):
        await published(tmp_path / "worker", storage, tale(0, 30))
    assert not [each for each in files_of(tmp_path / "published") if each.name == MANIFEST]


async def test_a_storage_that_is_away_leaves_the_fetched_snapshot_or_the_store(tmp_path: Path) -> None:
    with running_s3() as server:
        storage = open_storage(server.address("away"))
        await published(tmp_path / "worker", storage, tale(0, 30))
        async with host(tmp_path / "host", storage) as one:
            await write_world(one.store, tale(0, 30), "v1")
            await one.retriever.sync(WORLD)
        server.stop()
        async with host(tmp_path / "host", storage) as one:
            await one.retriever.sync(WORLD)
            assert one.index.snapshot_of(WORLD)
            assert one.embedder.embedded == []
            assert await one.degradations() == ["snapshot_unreachable"]
        async with host(tmp_path / "new", storage) as other:
            await write_world(other.store, tale(0, 30), "v1")
            await other.retriever.sync(WORLD)
            assert not other.index.snapshot_of(WORLD)
            assert await other.index.count(WORLD) == 30
            assert await other.degradations() == ["snapshot_unreachable"]


async def test_a_damaged_copy_on_a_host_is_fetched_again(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "published")
    made = await published(tmp_path / "worker", storage, tale(0, 30))
    for size in (True, False):
        async with host(tmp_path / "host", storage) as one:
            await write_world(one.store, tale(0, 30), "v1")
            await one.retriever.sync(WORLD)
            assert one.index.snapshot_of(WORLD)
            assert await one.index.count(WORLD) == 30
        copy = next(each for each in files_of(tmp_path / "host" / "cache") if each.as_posix().endswith(largest(made)))
        data = copy.read_bytes()
        copy.write_bytes(data[:-9] if size else bytes(len(data)))
    async with host(tmp_path / "host", storage) as one:
        await one.retriever.sync(WORLD)
        assert one.index.snapshot_of(WORLD)
        assert one.embedder.embedded == []


async def test_the_cache_is_bounded_and_deleted_snapshots_leave_it(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "published")
    async with host(tmp_path / "worker") as worker, host(tmp_path / "host", storage, most_bytes=1) as one:
        for version in range(3):
            for store in (worker.store, one.store):
                await write_world(store, tale(version, 30), f"v{version}")
            last = await publish(worker, storage)
            await one.retriever.sync(WORLD)
        kept = list((tmp_path / "host" / "cache").rglob(MANIFEST))
        # The one that is used stays, however small the bound.
        assert [each.parent.name for each in kept] == [last.snapshot_id]
        gone = await to_thread.run_sync(partial(delete_snapshots, storage, WORLD, keep=1))
        assert len(gone) == 2
        assert last.snapshot_id not in gone
    async with host(tmp_path / "other", storage, cache=tmp_path / "host" / "cache") as one:
        await write_world(one.store, tale(2, 30), "v2")
        await one.retriever.sync(WORLD)
        assert one.index.snapshot_of(WORLD)


async def test_an_index_that_is_not_complete_is_not_published(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "published")
    async with host(tmp_path / "worker") as worker:
        with pytest.raises(SnapshotError, match="has no world 'forest'"):
            await publish(worker, storage)
        await write_world(worker.store, tale(0, 30), "v1")
        await publish(worker, storage)
        await worker.index.drop(WORLD)
        into = worker.retriever.index_into
        with pytest.raises(SnapshotError, match="0 of 30 entries"):
            await publish_snapshot(worker.store, worker.index, storage, WORLD, encoder="", index_into=into, at=EPOCH)


async def test_a_manifest_names_no_file_outside_of_its_folder(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "published")
    made = await published(tmp_path / "worker", storage, tale(0, 10))
    for name in ("../escape", "/etc/passwd", "a/../../b", "c:/x", "a\\b", ""):
        files = {name: next(iter(made.files.values()))}
        data = encode_manifest(type(made)(**{each: getattr(made, each) for each in made.__slots__} | {"files": files}))
        with pytest.raises(SnapshotDamagedError, match="which no snapshot has"):
            read_manifest(data, shown="here", scope=WORLD, snapshot_id=made.snapshot_id)


def test_addresses_that_cannot_be_used_are_explained(tmp_path: Path) -> None:
    with pytest.raises(SnapshotStorageError, match="snapshots lie in a folder or below one of"):
        open_storage("ftp://user:pw@host/x")
    with pytest.raises(SnapshotStorageError, match="no such option"):
        ObjectStorage("s3://b/x?endpoint=1").folders("")
    with pytest.raises(SnapshotStorageError, match="there is no such folder"):
        open_storage(tmp_path / "nowhere").folders("")
    assert "secret" not in open_storage("s3://key:secret@b/x?region=r").shown
