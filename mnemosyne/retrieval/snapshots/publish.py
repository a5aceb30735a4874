"""Publishes the index of a world as a snapshot, and lists, verifies and deletes published snapshots.

A snapshot is a folder of files that hosts fetch and search, instead of indexing the world themselves. Its manifest is the file
that describes it.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp

from anyio import CancelScope, to_thread

from mnemosyne.core.errors import IndexUnavailableError, SnapshotDamagedError, SnapshotError
from mnemosyne.protocols import Index
from mnemosyne.retrieval.engines.lance.files import remove_others
from mnemosyne.retrieval.engines.large_scope import LargeScope
from mnemosyne.retrieval.snapshots.entries import (
    EntryMark,
    WorldSource,
    find_watermark,
    list_entries,
    world_of,
    write_entries,
)
from mnemosyne.retrieval.snapshots.manifest import (
    ENTRIES,
    MANIFEST,
    MIXED,
    Manifest,
    SnapshotFile,
    encode_manifest,
    name_snapshot,
    read_manifest,
    scope_folder,
)
from mnemosyne.retrieval.snapshots.storage import SnapshotStorage
from mnemosyne.values import dataclass

Progress = Callable[[int, int], None]
"""Called with (files uploaded, files in all)."""
IndexInto = Callable[[str, Index], Awaitable[None]]
"""Indexes a scope from the store into another index, as `HybridRetriever.index_into` does."""


_TRIES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedSnapshot:
    """A snapshot in a storage, as far as it can be read."""

    snapshot_id: str
    manifest: Manifest | None
    """None if the upload was interrupted or the manifest cannot be read."""
    fault: str = ""
    """Reason why the snapshot cannot be used ('' if it can be used)."""
    is_torn: bool = False
    """True if the manifest is missing, because the upload is under way or was interrupted."""


async def publish_snapshot(
    source: WorldSource,
    index: Index,
    storage: SnapshotStorage,
    scope: str,
    *,
    encoder: str,
    index_into: IndexInto,
    at: datetime,
    progress: Progress = lambda done, total: None,
) -> Manifest:
    """Publish the index of the world whose scope is `scope`, and return the manifest. `at` is the time of publishing.

    The index must be complete. If a graph of the vectors is built, the call takes long. The manifest is written last, so a
    snapshot with a manifest is complete. `progress` is called with (files uploaded, files in all).

    Args:
        encoder: Name of the embedder that must have processed every entry (empty: only words).
        index_into: Indexes the world anew if `index` has no files of it.

    Raises:
        SnapshotError: if the index is not complete, or the world changes meanwhile.
        IndexUnavailableError: if the index cannot be read.
        SnapshotStorageError: if the storage cannot be written.
        EmbedderUnavailableError: from `index_into`.
    """
    folder = Path(await to_thread.run_sync(partial(mkdtemp, prefix="jacquard-snapshot-")), "files")
    try:
        digest, marks, watermark = await _export(source, index, scope, folder, encoder, index_into)
        await to_thread.run_sync(write_entries, folder / ENTRIES, marks)
        files = await to_thread.run_sync(_list_files, folder)
        manifest = Manifest(
            snapshot_id=name_snapshot(at, files),
            scope=scope,
            world_digest=digest,
            encoder=encoder,
            rows=len(marks),
            watermark=watermark,
            published_at=at,
            files=files,
        )
        await to_thread.run_sync(_upload, storage, folder, manifest, progress)
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(partial(shutil.rmtree, folder.parent, ignore_errors=True))
    return manifest


def list_snapshots(storage: SnapshotStorage, scope: str) -> tuple[PublishedSnapshot, ...]:
    """Return all snapshots that are published for `scope`, oldest first. The call blocks.

    Raises SnapshotStorageError if the storage cannot be read.
    """
    found = []
    for name in storage.folders(scope_folder(scope)):
        place = f"{scope_folder(scope)}/{name}"
        data = storage.read(f"{place}/{MANIFEST}")
        if data is None:
            fault = "no manifest: its upload is under way or was torn"
            found.append(PublishedSnapshot(snapshot_id=name, manifest=None, fault=fault, is_torn=True))
            continue
        try:
            manifest = read_manifest(data, shown=f"{storage.shown}/{place}", scope=scope, snapshot_id=name)
            found.append(PublishedSnapshot(snapshot_id=name, manifest=manifest))
        except SnapshotDamagedError as error:
            found.append(PublishedSnapshot(snapshot_id=name, manifest=None, fault=error.reason))
    return tuple(found)


def verify_snapshot(storage: SnapshotStorage, manifest: Manifest) -> None:
    """Read every file of the snapshot that `manifest` describes, and compare its size and hash. The call blocks.

    Raises:
        SnapshotDamagedError: if a file differs from the manifest.
        SnapshotStorageError: if a file cannot be read.
    """
    place = f"{scope_folder(manifest.scope)}/{manifest.snapshot_id}"
    for name, wanted in sorted(manifest.files.items()):
        digest, size = hashlib.sha256(), 0
        for chunk in storage.chunks(f"{place}/{name}"):
            digest.update(chunk)
            size += len(chunk)
        if (size, digest.hexdigest()) != (wanted.size, wanted.sha256):
            raise SnapshotDamagedError(f"{storage.shown}/{place}", f"its file {name} is not what was published")


def delete_snapshots(storage: SnapshotStorage, scope: str, *, keep: int) -> tuple[str, ...]:
    """Delete published snapshots of `scope`, and return the deleted ids. The call blocks.

    The newest `keep` complete snapshots stay. Incomplete snapshots stay, too, if they are newer than the oldest complete snapshot
    that stays.

    Raises SnapshotStorageError if the storage cannot be read or written.
    """
    found = list_snapshots(storage, scope)
    whole = [each.snapshot_id for each in found if each.manifest is not None]
    first_kept = whole[-keep] if 0 < keep <= len(whole) else ""
    gone = [each.snapshot_id for each in found if keep == 0 or each.snapshot_id < first_kept]
    for name in gone:
        storage.delete(f"{scope_folder(scope)}/{name}")
    return tuple(gone)


async def _export(
    source: WorldSource, index: Index, scope: str, folder: Path, encoder: str, index_into: IndexInto
) -> tuple[str, dict[str, EntryMark], int]:
    """Write the table of a scope; return the version of the world that it has, the marks of its entries, and the watermark."""
    world_id = world_of(scope)
    for _ in range(_TRIES):
        digest = await source.world_digest(world_id)
        if digest is None:
            raise SnapshotError(f"The store has no world {world_id!r}; import it first: `jacquard memory import DIR`.")
        marks, mark = await list_entries(source, scope)
        await _check_complete(index, scope, encoder, len(marks))
        await to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))
        is_own = await index.export(scope, folder)
        if is_own is None:
            await _write_table(scope, folder, index_into)
        if (digest, mark) == (await source.world_digest(world_id), await find_watermark(source, scope)):
            return digest, marks, MIXED if is_own is False else mark
    raise SnapshotError(f"World {world_id!r} is being changed; publish it when its import is done.")


async def _write_table(scope: str, folder: Path, index_into: IndexInto) -> None:
    try:
        module = await to_thread.run_sync(import_module, "mnemosyne.retrieval.engines.lance.index")
    except ImportError as error:
        raise IndexUnavailableError(str(folder), scope, f"lancedb cannot be loaded ({error})") from error
    table = module.LanceIndex(str(folder))
    try:
        # Without new rows in memory all are written to the table.
        await index_into(scope, LargeScope(scope, table, delta_rows=0, held_rows=0))
        await table.finish(scope, rebuild=True)
    finally:
        await table.close()
    await to_thread.run_sync(remove_others, folder, scope)


async def _check_complete(index: Index, scope: str, encoder: str, entries: int) -> None:
    count = await index.count(scope)
    if count != entries:
        raise SnapshotError(
            f"The index of {scope!r} has {count:,} of {entries:,} entries: `jacquard operate reindex` brings in the rest."
        )
    if encoder and (entries and await index.encoder_of(scope) not in ("", encoder)):
        raise SnapshotError(
            f"The index of {scope!r} has the vectors of another model: `jacquard operate reindex` makes those of {encoder!r}."
        )
    if encoder and await index.unembedded_ids(scope, encoder, 1):
        raise SnapshotError(f"Some entries of {scope!r} have no vectors yet: `jacquard operate reindex` makes them.")
    if faults := index.faults():
        raise IndexUnavailableError(scope, scope, "; ".join(faults))


def _list_files(folder: Path) -> dict[str, SnapshotFile]:
    found = {}
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        found[file.relative_to(folder).as_posix()] = SnapshotFile(size=file.stat().st_size, sha256=digest)
    return found


def _upload(storage: SnapshotStorage, folder: Path, manifest: Manifest, progress: Progress) -> None:
    place = f"{scope_folder(manifest.scope)}/{manifest.snapshot_id}"
    for done, name in enumerate(sorted(manifest.files)):
        progress(done, len(manifest.files))
        storage.put(f"{place}/{name}", folder / name)
    storage.put_bytes(f"{place}/{MANIFEST}", encode_manifest(manifest))
    progress(len(manifest.files), len(manifest.files))
