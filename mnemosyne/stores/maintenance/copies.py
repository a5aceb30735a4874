"""Backs up and restores a whole store, or one tenant of it. A backup is one file.

The file gets its name only after all of it was written and checked.

The backup of a SQL store is itself a SQLite store (`sqlite:///FILE`), so it can be read, and a store can move from SQLite to
PostgreSQL and back. The SHA-256 of the backup is at the end of the file, and a restore compares it before anything is
written. The backup of a file store is a zip file with a digest for each of its files.

Both kinds of backup contain the originals of redacted texts that are on this host. Indexes are left out, because the next
turn builds them.
"""

from __future__ import annotations

import os
import sqlite3
import zipfile
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import StoreUnavailableError
from mnemosyne.files import make_private_file, place_draft
from mnemosyne.stores.locate import StoreLocation, locate_store
from mnemosyne.stores.maintenance.digest import check_digest, write_digest
from mnemosyne.stores.maintenance.folders import nothing_of, pack_folder, unpack_folder
from mnemosyne.stores.maintenance.originals import (
    originals_folder,
    originals_of,
    pack_originals,
    unpack_originals,
)
from mnemosyne.stores.maintenance.rows import copy_rows, reading, writing
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyResult:
    """Result of a backup or restore: the store's address, and the number of rows by table (for a file store: files and
    bytes).
    """

    store: str
    counts: Mapping[str, int]


def backup_store(address: str, file: Path, tenant: str | None = None) -> CopyResult:
    """Write a backup of the store at `address` to `file`, while others may use the store. This blocks.

    If `tenant` is not None, only its data is copied. Raises StoreUnavailableError in these cases: there is no store, the store or
    the tenant is empty, `file` exists already, or `file` cannot be written.
    """
    location = locate_store(address)
    if file.exists():
        raise StoreUnavailableError(str(file), "it exists already; choose another name")
    draft = file.with_name(f"{file.name}.partial")
    _remove(draft)
    try:
        make_private_file(draft)
        if location.kind == "file":
            counts = pack_folder(_folder(location), draft, tenant, originals_of(location, tenant))
        else:
            with reading(location) as source, writing(_sqlite(draft)) as target:
                counts = copy_rows(source, target, tenant) | pack_originals(location, target.connection, tenant)
            seal_backup(draft)
        if not any(counts.values()):
            raise StoreUnavailableError(location.shown, nothing_of(tenant))
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        place_draft(draft, file)
    except OSError as error:
        raise StoreUnavailableError(str(file), f"it cannot be written ({error.strerror or error})") from error
    finally:
        _remove(draft)
    return CopyResult(store=location.shown, counts=counts)


def restore_store(file: Path, address: str) -> CopyResult:
    """Write the backup `file` into the store at `address`. This blocks. The store must be empty, or is created.

    Raises:
        StoreUnavailableError: before anything is written, if the backup is damaged or of another kind, or the store is
            not empty.
    """
    location = locate_store(address)
    if not file.is_file():
        raise StoreUnavailableError(str(file), "there is no such file")
    if zipfile.is_zipfile(file):
        if location.kind != "file":
            raise StoreUnavailableError(location.shown, "this is the backup of a file store; restore it to file:FOLDER")
        return CopyResult(
            store=location.shown, counts=unpack_folder(file, _folder(location), originals_folder(location))
        )
    if location.kind == "file":
        raise StoreUnavailableError(
            location.shown, "this is the backup of a SQL store; restore it to SQLite or PostgreSQL"
        )
    _check(file)
    with reading(_sqlite(file)) as source, writing(location) as target:
        counts = copy_rows(source, target)
        # Before the rows are committed: a store that has them has the originals too.
        return CopyResult(store=location.shown, counts=counts | unpack_originals(source.connection, location))


def _check(file: Path) -> None:
    check_digest(file)
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?immutable=1", uri=True)) as connection:
            found: list[tuple[Any, ...]] = connection.execute("PRAGMA integrity_check(1)").fetchall()
    except sqlite3.DatabaseError as error:
        raise StoreUnavailableError(str(file), f"it is not a backup, or it is damaged ({error})") from None
    if found != [("ok",)]:
        raise StoreUnavailableError(str(file), f"it is damaged ({found[0][0]}); take another backup")


def seal_backup(file: Path) -> None:
    """Complete a backup: move its write-ahead log into the SQLite file, and write its digest."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    write_digest(file)


def _sqlite(file: Path) -> StoreLocation:
    return StoreLocation(kind="sqlite", shown=str(file), database=file)


def _folder(location: StoreLocation) -> Path:
    if location.database is None or location.kind != "file":
        raise StoreUnavailableError(location.shown, "it is not a folder of files")
    return location.database


def _remove(draft: Path) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            draft.with_name(draft.name + end).unlink()
