"""Copies the folder of a file store into a zip file with digests, and back into an empty folder."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from mnemosyne.core.codec import decode, encode
from mnemosyne.core.errors import CodecError, StoreUnavailableError
from mnemosyne.files import make_private_folder, write_file
from mnemosyne.stores.file.folder import SIGN, SUFFIX, Folder, file_name
from mnemosyne.stores.locate import DEFAULT_TENANT
from mnemosyne.stores.maintenance.digest import DIGESTS
from mnemosyne.stores.maintenance.originals import place_original
from mnemosyne.values import dataclass

LOCK_SECONDS = 60.0
_BESIDE = ".beside/"
"""Prefix, in the backup, of files that are not from the store's folder but from next to it. An older release restores
them into a folder that it ignores.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Digests:
    """Content of `digests.json` in a backup: the SHA-256 of each file, by its path below the folder."""

    program: str
    format: int
    files: dict[str, str]


PROGRAM, FORMAT = "jacquard operate backup of files", 1


def nothing_of(tenant: str | None) -> str:
    """Return the reason why a backup of a tenant (None: of the whole store) would be empty."""
    if tenant is None:
        return "it is empty, so there is nothing to back up; check its address"
    return f"it has nothing of the tenant {tenant!r}; check the name"


def pack_folder(
    folder: Path, target: Path, tenant: str | None = None, originals: Iterable[tuple[str, Path]] = ()
) -> dict[str, int]:
    """Write all files of a store into the zip file `target`, while no process writes them.

    Return {"files": number of files, "bytes": their size}. If `tenant` is not None, only files of this tenant are written.
    `originals` are further files: pairs (name in the backup, path).

    Raises StoreUnavailableError if the folder contains no store, or nothing of the tenant.
    """
    if not (folder / SIGN).is_file():
        raise StoreUnavailableError(str(folder), "there is no store in it; start a session there first")
    homes = [each for each in sorted(folder.iterdir()) if each.is_dir() and not each.name.startswith(".")]
    if tenant is not None:
        homes = [each for each in homes if each.name == file_name(tenant)]
        if not homes:
            raise StoreUnavailableError(str(folder), nothing_of(tenant))
    files: dict[str, str] = {}
    size = 0
    store = Folder(folder, DEFAULT_TENANT, create=False, durable=True, busy_seconds=LOCK_SECONDS)
    store.check()
    with store.hold_lock(), zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        named = [(path.relative_to(folder).as_posix(), path) for path in _files(folder, homes)]
        for name, path in (*named, *((f"{_BESIDE}{name}", path) for name, path in originals)):
            data = path.read_bytes()
            files[name] = hashlib.sha256(data).hexdigest()
            size += len(data)
            archive.writestr(name, data)
        archive.writestr(DIGESTS, encode(Digests(program=PROGRAM, format=FORMAT, files=files)))
    return {"files": len(files), "bytes": size}


def unpack_folder(source: Path, folder: Path, originals: Path | None = None) -> dict[str, int]:
    """Write the files of the backup `source` into the empty folder `folder`.

    Return {"files": number of files, "bytes": their size}.
    `originals` is the folder for originals of redacted texts (None: they are left out). Every file is checked before
    the first is written. Raises StoreUnavailableError if the folder is not empty, or the backup is damaged.
    """
    if folder.exists() and (not folder.is_dir() or any(each.name != ".index" for each in folder.iterdir())):
        raise StoreUnavailableError(str(folder), "it is not an empty folder; name a new one")
    with zipfile.ZipFile(source) as archive:
        digests = _read_digests(archive, source)
        for name, data in _members(archive, digests):
            if hashlib.sha256(data).hexdigest() != digests.files[name]:
                raise StoreUnavailableError(str(source), f"{name} in it is damaged; take another backup")
        size = 0
        make_private_folder(folder)
        # The description of the store is written last: without it, the folder is not taken for a whole one.
        for name, data in sorted(_members(archive, digests), key=lambda each: each[0] == SIGN):
            if name.startswith(_BESIDE):
                if originals is not None:
                    place_original(originals, name.removeprefix(_BESIDE), data)
                continue
            path = folder.joinpath(*PurePosixPath(name).parts)
            make_private_folder(path.parent)
            write_file(path, data, private=True)
            size += len(data)
    return {"files": len(digests.files), "bytes": size}


def _files(folder: Path, homes: list[Path]) -> Iterator[Path]:
    yield folder / SIGN
    for home in homes:
        yield from (each for each in sorted(home.rglob("*")) if each.is_file() and each.name.endswith(SUFFIX))


def _read_digests(archive: zipfile.ZipFile, source: Path) -> Digests:
    try:
        digests: Digests = decode(archive.read(DIGESTS), Digests)
    except (KeyError, CodecError, zipfile.BadZipFile) as error:
        raise StoreUnavailableError(str(source), f"it is not a backup of a file store ({error})") from None
    if digests.program != PROGRAM or digests.format > FORMAT:
        raise StoreUnavailableError(str(source), "it was made by another program or by a newer release")
    if any(
        ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute() or "\\" in name for name in digests.files
    ):
        raise StoreUnavailableError(str(source), "a path in it leads outside of the store")
    return digests


def _members(archive: zipfile.ZipFile, digests: Digests) -> Iterator[tuple[str, bytes]]:
    for name in digests.files:
        try:
            yield name, archive.read(name)
        except (KeyError, zipfile.BadZipFile, OSError) as error:
            raise StoreUnavailableError(
                str(archive.filename), f"{name} in it is damaged ({error}); take another backup"
            ) from None
