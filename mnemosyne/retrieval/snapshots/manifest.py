"""Describes a snapshot (the published index of a world) in its file `manifest.json`.

The manifest is written after all other files, so a snapshot without a manifest is incomplete. This module does no I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import PurePosixPath

from mnemosyne.core.codec import decode, encode
from mnemosyne.core.errors import CodecError, SnapshotDamagedError
from mnemosyne.retrieval.engines.lance.files import table_name
from mnemosyne.values import dataclass

MANIFEST = "manifest.json"
ENTRIES = "entries.parquet"
"""File with the mark of each entry. All other files belong to the table."""

MIXED = -1
"""Watermark of a snapshot whose rows have the sequences of several stores."""

FORMAT_VERSION = 1
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotFile:
    """Size in bytes and SHA-256 (hex) of one file."""

    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """A published snapshot of a scope.

    - `world_digest`: the version of the world that was indexed.
    - `encoder`: the name of the embedder that made the vectors (empty: there are none).
    - `rows`: the number of entries.
    - `watermark`: the highest sequence of the publisher's store, or `MIXED`.
    - `files`: the files by their names below the snapshot's folder, with `/`.
    """

    snapshot_id: str
    scope: str
    world_digest: str
    encoder: str
    rows: int
    watermark: int
    published_at: datetime
    files: Mapping[str, SnapshotFile]
    format_version: int = FORMAT_VERSION

    @property
    def size_bytes(self) -> int:
        """Size of all files together."""
        return sum(each.size for each in self.files.values())


def name_snapshot(published_at: datetime, files: Mapping[str, SnapshotFile]) -> str:
    """Return the id of a snapshot. Ids of one scope sort in the order of publishing. Two snapshots always have different ids."""
    listed = "\n".join(f"{name} {files[name].sha256}" for name in sorted(files))
    return f"{published_at:%Y%m%dT%H%M%S%f}Z-{hashlib.sha256(listed.encode()).hexdigest()[:8]}"


def scope_folder(scope: str) -> str:
    """Return the name of the folder that holds the snapshots of a scope."""
    return table_name(scope)


def name_place(shown: str) -> str:
    """Return the name of the folder in the cache for the storage with the address `shown`."""
    return hashlib.sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the content of `manifest.json`."""
    return encode(manifest)


def read_manifest(data: bytes, *, shown: str, scope: str, snapshot_id: str) -> Manifest:
    """Return the manifest in `data`, the content of a file.

    Raises SnapshotDamagedError (with `shown`, the place of the file) if `data` cannot be read as a manifest, has another format
    version, does not belong to `scope` and `snapshot_id`, or names a file outside of its folder.
    """
    try:
        manifest = decode(data, Manifest)
    except CodecError as error:
        raise SnapshotDamagedError(shown, f"its {MANIFEST} cannot be read ({error})") from error
    if manifest.format_version != FORMAT_VERSION:
        raise SnapshotDamagedError(
            shown, f"it has format {manifest.format_version}, and this release reads format {FORMAT_VERSION}"
        )
    if (manifest.scope, manifest.snapshot_id) != (scope, snapshot_id):
        raise SnapshotDamagedError(shown, f"its {MANIFEST} is of {manifest.scope!r}, {manifest.snapshot_id}")
    for name, file in manifest.files.items():
        path = PurePosixPath(name)
        inside = not path.is_absolute() and ".." not in path.parts and "\\" not in name and ":" not in name
        if not inside or name in ("", ".", MANIFEST) or len(file.sha256) != 64 or not set(file.sha256) <= _HEX:
            raise SnapshotDamagedError(shown, f"its {MANIFEST} names the file {name!r}, which no snapshot has")
    return manifest
