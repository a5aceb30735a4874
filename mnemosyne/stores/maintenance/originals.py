"""Puts the originals of redacted texts into a backup, and restores them from it.

An original is the text before personal data was masked in it. A store keeps originals only if the setting `dual_store` is on.
They are files in folders next to the index of the store, one folder for each tenant (the owner of sessions). If the store is in
PostgreSQL, each host keeps the originals of the texts that it received, and a backup contains only the originals of this host.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from mnemosyne.core.errors import StoreUnavailableError
from mnemosyne.files import NEW, make_private_folder, write_file
from mnemosyne.stores.locate import INDEX_NAME, StoreLocation, index_of_tenant
from mnemosyne.stores.sql.connection import Connection

FOLDER = "originals"
_TABLE = "CREATE TABLE backup_files (name TEXT NOT NULL PRIMARY KEY, sha256 TEXT NOT NULL, body BLOB NOT NULL)"


def originals_folder(location: StoreLocation) -> Path | None:
    """Return the folder of the default tenant's originals, or None if the store has no index folder.

    The folders of other tenants have the same name, followed by the number of the tenant.
    """
    return None if location.index is None else _beside(location.index)


def originals_of(location: StoreLocation, tenant: str | None = None) -> Iterator[tuple[str, Path]]:
    """Yield (name in a backup, file) for each file with an original. If `tenant` is not None, yield only its files."""
    first = originals_folder(location)
    if first is None or not first.parent.is_dir():
        return
    only = None if tenant is None else _beside(index_of_tenant(location, tenant) or first).name
    for folder in sorted(first.parent.iterdir()):
        rest = folder.name.removeprefix(first.name)
        is_ours = folder.name == first.name or (folder.name.startswith(f"{first.name}-") and rest[1:].isalnum())
        if not is_ours or not folder.is_dir() or only not in (None, folder.name):
            continue
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not file.name.endswith(NEW):
                yield f"{FOLDER}{rest}/{file.relative_to(folder).as_posix()}", file


def pack_originals(location: StoreLocation, target: Connection, tenant: str | None) -> dict[str, int]:
    """Write the originals of `tenant` (None: of all tenants) into the backup `target` of a SQL store.

    Return {"originals": the number of files that were written}.
    """
    target.execute(_TABLE)
    number = 0
    for name, file in originals_of(location, tenant):
        data = file.read_bytes()
        target.insert("backup_files", "name, sha256, body", [(name, hashlib.sha256(data).hexdigest(), data)])
        number += 1
    return {FOLDER: number}


def unpack_originals(source: Connection, location: StoreLocation) -> dict[str, int]:
    """Write the originals from the backup `source` into the folders next to the store at `location`.

    Return {"originals": the number of originals in the backup}. Raises StoreUnavailableError if an original is damaged, the
    store has no index folder, or another file with a different content has the name of an original.
    """
    if source.execute("SELECT 1 FROM sqlite_master WHERE name = 'backup_files'").fetchone() is None:
        return {FOLDER: 0}
    first, number = originals_folder(location), 0
    for name, digest, body in source.execute("SELECT name, sha256, body FROM backup_files ORDER BY name"):
        if first is None or hashlib.sha256(body).hexdigest() != digest:
            raise StoreUnavailableError(location.shown, f"{name} cannot be restored to it; take another backup")
        place_original(first, name, bytes(body))
        number += 1
    return {FOLDER: number}


def place_original(first: Path, name: str, body: bytes) -> None:
    """Write one original of a backup. `first` is the folder of the default tenant, `name` the name of the original in the
    backup, and `body` its content.

    If the file exists already with the same content, nothing is written. Raises StoreUnavailableError if the file exists with
    a different content, or `name` leads out of the folder.
    """
    folder, *parts = PurePosixPath(name).parts
    if not folder.startswith(FOLDER) or not parts or ".." in parts or "\\" in name:
        raise StoreUnavailableError(name, "a path in the backup leads outside of the store")
    file = first.with_name(first.name + folder.removeprefix(FOLDER)).joinpath(*parts)
    if file.is_file():
        if file.read_bytes() != body:
            raise StoreUnavailableError(str(file), "another original lies there; name a new store")
        return
    make_private_folder(file.parent)
    write_file(file, body, private=True)


def _beside(index: Path) -> Path:
    return index.with_name(index.name.replace(INDEX_NAME, FOLDER))
