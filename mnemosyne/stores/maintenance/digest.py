"""Writes the SHA-256 of a backup into the backup itself, and compares it.

The digest follows the last page of the SQLite file, at a place that SQLite ignores. So a backup is one file to copy,
and a restore notices a lost or changed part before anything is restored.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from mnemosyne.core.errors import StoreUnavailableError

DIGESTS = "digests.json"
"""Name of the list of digests in the backup of a file store."""

_MARK = b"\njacquard backup sha256 "
_BYTES = len(_MARK) + 64
_BLOCK = 1 << 20


def write_digest(file: Path) -> None:
    """Write the digest of a sealed SQLite file after its pages. It replaces a former digest."""
    size = _size_of_pages(file)
    digest = _digest(file, size)
    with file.open("r+b") as written:
        written.truncate(size)
        written.seek(0, os.SEEK_END)
        written.write(_MARK + digest.encode())


def check_digest(file: Path) -> None:
    """Compare the backup `file` with its digest. A backup of an old release has no digest and is accepted.

    Raises StoreUnavailableError if the digest differs.
    """
    size = file.stat().st_size - _BYTES
    with file.open("rb") as read:
        read.seek(max(size, 0))
        end = read.read()
    if not end.startswith(_MARK):
        return
    if _digest(file, size).encode() != end[len(_MARK) :]:
        raise StoreUnavailableError(str(file), "it is not what was written (its SHA-256 differs); take another backup")


def has_digest(file: Path) -> bool:
    """Return whether a file is a backup: a SQLite file with a digest, or a zip file with a list of digests."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            return DIGESTS in archive.namelist()
    with file.open("rb") as read:
        read.seek(max(file.stat().st_size - _BYTES, 0))
        return read.read(len(_MARK)) == _MARK


def _digest(file: Path, size: int) -> str:
    found = hashlib.sha256()
    for block in _blocks(file, size):
        found.update(block)
    return found.hexdigest()


def _blocks(file: Path, size: int) -> Iterator[bytes]:
    with file.open("rb") as read:
        while size > 0 and (block := read.read(min(size, _BLOCK))):
            size -= len(block)
            yield block


def _size_of_pages(file: Path) -> int:
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?immutable=1", uri=True)) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages) * int(size)
