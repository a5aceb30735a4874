"""Keeps the snapshots that a host has fetched, in a folder of limited size that all processes of the host share.

A snapshot is the published index of a world. One process fetches a snapshot, checks its hashes, and moves it into its place in
one step; other processes wait. A process that searches a snapshot holds a lock on a file next to the snapshot, so that no other
process removes the snapshot. Every call here blocks.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from filelock import FileLock, Timeout

from mnemosyne.core.errors import SnapshotDamagedError, SnapshotStorageError
from mnemosyne.files import make_private_folder, write_chunks, write_file
from mnemosyne.retrieval.snapshots.manifest import (
    MANIFEST,
    Manifest,
    encode_manifest,
    name_place,
    read_manifest,
    scope_folder,
)
from mnemosyne.retrieval.snapshots.storage import SnapshotStorage

_WAIT_SECONDS = 3_600.0
_INCOMING = ".incoming-"
_USE = ".use-"


class SnapshotCache:
    """Fetched snapshots below `folder`, from any number of storages.

    After a fetch or a release, the snapshots that were used longest ago are removed until all others together have at most
    `most_bytes`. A snapshot that a process uses is not removed.
    """

    def __init__(self, folder: Path, *, most_bytes: int) -> None:
        self._folder, self._most_bytes = folder, most_bytes
        self._used: dict[Path, FileLock] = {}

    def fetch(self, storage: SnapshotStorage, manifest: Manifest) -> Path:
        """Return the folder of a snapshot in the cache. A snapshot that is not there is fetched first. The snapshot is in
        use until `release`.

        Raises:
            SnapshotDamagedError: if a file differs from the manifest.
            SnapshotStorageError: if a file cannot be read, or there is no room for it.
        """
        place = self._place(storage, manifest.scope, manifest.snapshot_id)
        try:
            make_private_folder(place.parent)
            with _lock_of(place, _WAIT_SECONDS):
                if not _is_whole(place, manifest):
                    shutil.rmtree(place, ignore_errors=True)
                    self._fetch(storage, manifest, place)
                self._use(place)
            self._evict()
        except OSError as error:
            raise SnapshotStorageError(str(self._folder), error.strerror or str(error)) from error
        return place

    def newest(self, storage: SnapshotStorage, scope: str) -> tuple[Manifest, Path] | None:
        """Return (manifest, folder) of the newest snapshot of a scope that was fetched from `storage`, or None if there is
        none. The snapshot is in use until `release`.
        """
        for place in sorted(self._place(storage, scope, "").glob("*"), reverse=True):
            if place.name.startswith(_INCOMING) or not place.is_dir():
                continue
            with suppress(OSError, SnapshotDamagedError), _lock_of(place, _WAIT_SECONDS):
                data = (place / MANIFEST).read_bytes()
                manifest = read_manifest(data, shown=str(place), scope=scope, snapshot_id=place.name)
                if _is_whole(place, manifest):
                    self._use(place)
                    return manifest, place
        return None

    def keep_only(self, storage: SnapshotStorage, scope: str, names: Collection[str]) -> None:
        """Remove the fetched snapshots of a scope whose ids are not in `names` (the published ones), except those in use."""
        for place in self._place(storage, scope, "").glob("*"):
            if place.is_dir() and place.name not in names and not place.name.startswith(_INCOMING):
                self._remove(place)

    def release(self, place: Path) -> None:
        """End the use of the snapshot in the folder `place`. If the cache is too large, the snapshot may be removed at once."""
        if (lock := self._used.pop(place, None)) is not None:
            lock.release()
            Path(lock.lock_file).unlink(missing_ok=True)
            with suppress(OSError):
                self._evict()

    def _place(self, storage: SnapshotStorage, scope: str, snapshot_id: str) -> Path:
        return self._folder / name_place(storage.shown) / scope_folder(scope) / snapshot_id

    def _fetch(self, storage: SnapshotStorage, manifest: Manifest, place: Path) -> None:
        for left in place.parent.glob(f"{_INCOMING}{place.name}-*"):
            shutil.rmtree(left, ignore_errors=True)
        draft = place.with_name(f"{_INCOMING}{place.name}-{uuid4().hex}")
        try:
            for name in sorted(manifest.files):
                make_private_folder((draft / name).parent)
                self._fetch_file(storage, manifest, name, draft / name)
            write_file(draft / MANIFEST, encode_manifest(manifest), private=True)
            draft.replace(place)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def _fetch_file(self, storage: SnapshotStorage, manifest: Manifest, name: str, target: Path) -> None:
        place = f"{scope_folder(manifest.scope)}/{manifest.snapshot_id}"
        wanted, digest, size = manifest.files[name], hashlib.sha256(), 0

        def checked() -> Iterator[bytes]:
            nonlocal size
            for chunk in storage.chunks(f"{place}/{name}"):
                digest.update(chunk)
                size += len(chunk)
                yield chunk

        try:
            write_chunks(target, checked())
        except SnapshotStorageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise SnapshotDamagedError(f"{storage.shown}/{place}", f"its file {name} is missing") from error
            raise
        if (size, digest.hexdigest()) != (wanted.size, wanted.sha256):
            raise SnapshotDamagedError(
                f"{storage.shown}/{place}",
                f"its file {name} has {size:,} bytes that are not the {wanted.size:,} that were published",
            )

    def _use(self, place: Path) -> None:
        if place not in self._used:
            lock = FileLock(place.with_name(f"{place.name}{_USE}{uuid4().hex}"), thread_local=False)
            lock.acquire()
            self._used[place] = lock
        place.touch()

    def _evict(self) -> None:
        """Remove the snapshots that were used longest ago and that nobody uses, until the rest is small enough."""
        places = [each.parent for each in self._folder.glob(f"*/*/*/{MANIFEST}")]
        found = [(each.stat().st_mtime, each, _size_of(each)) for each in places if not each.name.startswith(_INCOMING)]
        total = sum(size for _, _, size in found)
        for _, place, size in sorted(found):
            if total <= self._most_bytes:
                return
            if self._remove(place):
                total -= size

    def _remove(self, place: Path) -> bool:
        """Remove a snapshot unless a process uses it; return whether it was."""
        with suppress(OSError), _lock_of(place, 0):
            if not _is_used(place):
                # Moved first: whoever looks meanwhile finds the snapshot whole or not at all.
                gone = place.with_name(f"{_INCOMING}{place.name}-{uuid4().hex}")
                place.replace(gone)
                shutil.rmtree(gone, ignore_errors=True)
                return True
        return False


def _lock_of(place: Path, wait_seconds: float) -> FileLock:
    """Return the lock under which a snapshot is fetched, taken into use and removed; `filelock.Timeout` is an OSError."""
    return FileLock(place.with_name(f"{place.name}.lock"), timeout=wait_seconds)


def _is_whole(place: Path, manifest: Manifest) -> bool:
    """Return whether a fetched snapshot has all its files in their sizes. Its hashes were checked when it was fetched, and the
    rows of its table have checksums.
    """
    try:
        return all((place / name).stat().st_size == each.size for name, each in manifest.files.items())
    except OSError:
        return False


def _is_used(place: Path) -> bool:
    """Return whether a process uses a snapshot; the files of processes that have ended are removed."""
    for file in place.parent.glob(f"{place.name}{_USE}*"):
        lock = FileLock(file, timeout=0)
        try:
            with lock:
                pass
        except (Timeout, OSError):
            return True
        file.unlink(missing_ok=True)
    return False


def _size_of(place: Path) -> int:
    return sum(each.stat().st_size for each in place.rglob("*") if each.is_file())
