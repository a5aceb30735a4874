"""Gives a host the snapshots of its store's worlds: finds them in the storage, fetches them, and compares them with the
store.

A snapshot is the published index of a world. If snapshot and store differ, the store is right. Rows of the snapshot that the
store no longer has are hidden, and entries that the snapshot lacks are added from the store.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from time import monotonic

from anyio import CapacityLimiter, to_thread

from mnemosyne.core.errors import SnapshotDamagedError, SnapshotStorageError
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.retrieval.engines.served.snapshot import ServedSnapshot
from mnemosyne.retrieval.snapshots.cache import SnapshotCache
from mnemosyne.retrieval.snapshots.entries import (
    EntryMark,
    WorldSource,
    find_watermark,
    list_entries,
    read_entries,
    world_of,
)
from mnemosyne.retrieval.snapshots.manifest import ENTRIES, MANIFEST, MIXED, Manifest, read_manifest, scope_folder
from mnemosyne.retrieval.snapshots.storage import SnapshotStorage, open_storage
from mnemosyne.schema.memory import Chain

_log = open_log(__name__)
_TRIED = 3
"""Maximum number of damaged or incomplete snapshots that are skipped, so that a host does not search a whole storage."""


def open_library(
    source: WorldSource,
    address: str,
    folder: Path,
    *,
    most_bytes: int,
    can_search: Callable[[str], bool],
    check_seconds: float,
) -> SnapshotLibrary:
    """Return the library of the snapshots at `address`. Nothing is read yet.

    Fetched snapshots are kept in `folder`, which grows to at most `most_bytes`. `SnapshotLibrary` explains the other arguments.
    Raises SnapshotStorageError if the address cannot be used.
    """
    cache = SnapshotCache(folder, most_bytes=most_bytes)
    return SnapshotLibrary(source, open_storage(address), cache, can_search=can_search, check_seconds=check_seconds)


class SnapshotLibrary:
    """A `SnapshotSource` over a storage and a cache.

    Degradations:

    - `snapshot_unreachable`: the storage cannot be reached. The newest fetched snapshot is used. If there is none, this host
      makes an index itself.
    - `snapshot_damaged`: a damaged snapshot is skipped. An older one is used. If there is none, this host makes an index itself.
    - `encoder_missing`: the embedder of the newest snapshot is not available here.

    Args:
        can_search: Returns whether this host can search the vectors of the embedder with the given name. The name is '' if a
            snapshot has only words.
        check_seconds: Least time between two calls of `find_newer` that ask the storage.
    """

    def __init__(
        self,
        source: WorldSource,
        storage: SnapshotStorage,
        cache: SnapshotCache,
        *,
        can_search: Callable[[str], bool],
        check_seconds: float = 300.0,
    ) -> None:
        self._source, self._storage, self._cache = source, storage, cache
        self._can_search, self._check_seconds = can_search, check_seconds
        self._codes: dict[str, dict[str, None]] = {}
        self._checked: dict[str, float] = {}
        # A thread of its own: a fetch takes long, and a storage that is away is waited for.
        self._thread = CapacityLimiter(1)

    async def open(self, scope: str) -> ServedSnapshot | None:
        """Return the newest usable snapshot of a world's lore. Return None if there is none, or the store has no such world."""
        return await self._find(scope, "")

    async def find_newer(self, scope: str, snapshot_id: str) -> ServedSnapshot | None:
        """Return a usable snapshot of `scope` that is newer than `snapshot_id`.

        Return None if there is none, or if the storage was asked less than `check_seconds` ago.
        """
        if monotonic() - self._checked.get(scope, 0.0) < self._check_seconds:
            return None
        return await self._find(scope, snapshot_id)

    async def reject(self, snapshot: ServedSnapshot, reason: str) -> None:
        """Remove a fetched snapshot whose table cannot be read. It is fetched again at the next call of `open`."""
        _log.warning("the snapshot %s cannot be read: %s", snapshot.folder, reason)
        await self.release(snapshot)
        await to_thread.run_sync(partial(shutil.rmtree, snapshot.folder, ignore_errors=True))

    async def release(self, snapshot: ServedSnapshot) -> None:
        """Allow the files of a snapshot to be removed."""
        await to_thread.run_sync(self._cache.release, snapshot.folder)

    def degradations_for(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Return the degradation codes of the last search for snapshots of these scopes."""
        return tuple(dict.fromkeys(code for scope in scopes for code in self._codes.get(scope, ())))

    async def _find(self, scope: str, after: str) -> ServedSnapshot | None:
        world_id = world_of(scope)
        if not world_id or await self._source.world_digest(world_id) is None:
            return None
        self._checked[scope] = monotonic()
        self._codes[scope] = {}
        found = await to_thread.run_sync(self._fetch_newest, scope, after, limiter=self._thread)
        return None if found is None else await self._compare(*found)

    def _fetch_newest(self, scope: str, after: str) -> tuple[Manifest, Path] | None:
        """Return the newest usable snapshot and its folder in the cache. Blocks."""
        try:
            published = self._storage.folders(scope_folder(scope))
            self._cache.keep_only(self._storage, scope, published)
            for name in [name for name in reversed(published) if name > after][:_TRIED]:
                try:
                    if (manifest := self._read_manifest(scope, name)) is None:
                        continue
                    if not self._is_searchable(manifest):
                        return None
                    return manifest, self._cache.fetch(self._storage, manifest)
                except SnapshotDamagedError as error:
                    self._tell(scope, "snapshot_damaged", str(error))
        except SnapshotStorageError as error:
            self._tell(scope, "snapshot_unreachable", str(error))
            kept = None if after else self._cache.newest(self._storage, scope)
            return kept if kept is not None and self._is_searchable(kept[0]) else None
        return None

    def _read_manifest(self, scope: str, name: str) -> Manifest | None:
        """Return the manifest of a snapshot, or None if it has none, because its upload is under way or was torn."""
        place = f"{scope_folder(scope)}/{name}"
        data = self._storage.read(f"{place}/{MANIFEST}")
        if data is None:
            _log.info(
                "%s/%s has no manifest: its upload is under way or was torn, and it is not used",
                self._storage.shown,
                place,
            )
            return None
        return read_manifest(data, shown=f"{self._storage.shown}/{place}", scope=scope, snapshot_id=name)

    def _is_searchable(self, manifest: Manifest) -> bool:
        if self._can_search(manifest.encoder):
            return True
        made = (
            f"has vectors of {manifest.encoder!r}, which is not available here"
            if manifest.encoder
            else "has no vectors"
        )
        self._tell(
            manifest.scope,
            "encoder_missing",
            f"The snapshot {manifest.snapshot_id} of {manifest.scope!r} {made}: the index is made from the store.",
        )
        return False

    async def _compare(self, manifest: Manifest, folder: Path) -> ServedSnapshot | None:
        """Return a fetched snapshot with the later changes of the store, or None if its marks cannot be read."""
        scope = manifest.scope
        snapshot = ServedSnapshot(snapshot_id=manifest.snapshot_id, folder=folder)
        if await self._is_present(manifest):
            snapshot.watermarks = {Chain.LORE: manifest.watermark}
            return snapshot
        try:
            stored = await to_thread.run_sync(read_entries, folder / ENTRIES)
        except (OSError, ValueError) as error:
            await self.reject(snapshot, str(error))
            self._tell(scope, "snapshot_damaged", f"The snapshot {folder} cannot be read: {error}.")
            return None
        present, mark = await list_entries(self._source, scope)
        await to_thread.run_sync(_note_changes, snapshot, stored, present, manifest.watermark == MIXED)
        snapshot.watermarks = {Chain.LORE: mark}
        return snapshot

    async def _is_present(self, manifest: Manifest) -> bool:
        """Return whether the store has the version of the world that was published, written in the same order."""
        if not manifest.world_digest or await self._digest(manifest) != manifest.world_digest:
            return False
        mark = await find_watermark(self._source, manifest.scope)
        return mark == manifest.watermark and await self._digest(manifest) == manifest.world_digest

    async def _digest(self, manifest: Manifest) -> str | None:
        return await self._source.world_digest(world_of(manifest.scope))

    def _tell(self, scope: str, code: str, sentence: str) -> None:
        _log.warning("%s", sentence)
        self._codes.setdefault(scope, {})[f"{code}: {sentence}"] = None


def _note_changes(
    snapshot: ServedSnapshot, stored: Mapping[str, EntryMark], present: Mapping[str, EntryMark], is_mixed: bool
) -> None:
    kept = {name: each for name, each in present.items() if (was := stored.get(name)) and was.digest == each.digest}
    snapshot.stale = tuple(name for name in stored if name not in kept)
    snapshot.incomplete = len(kept) < len(present)
    if is_mixed or any(stored[name].sequence != each.sequence for name, each in kept.items()):
        snapshot.sequences = {name: each.sequence for name, each in kept.items()}
