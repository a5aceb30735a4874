"""Writes files whole, and creates the files and folders that only their owner may read.

Every file that matters is written by `write_file`: a reader, or a machine that loses its power, finds the old content or
the new one and never a part. An architecture test forbids other ways of writing. All functions here block.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

NEW = ".new"
"""The end of the name of a file that is being written; one that a killed process has left may be removed."""

_FILE_MODE, _FOLDER_MODE, _OPEN_MODE = 0o600, 0o700, 0o666


def write_file(path: Path, data: bytes | str, *, private: bool = False, durable: bool = True) -> None:
    """Write a file whole or not at all: beside it, flushed to the disk, then moved into its place.

    Text is written as UTF-8. A new file may be read and written by its owner alone if it is `private`, otherwise by whom
    the umask lets; an existing one keeps its mode. A symbolic link stays one. Without `durable` the operating system may
    still hold the content when this returns. A path that names a device or a pipe is written to directly. OSError when
    it cannot be written; then nothing has changed.
    """
    body = data.encode("utf-8") if isinstance(data, str) else data
    place = path.resolve() if path.is_symlink() else path
    known = _mode_of(place)
    if known is not None and not stat.S_ISREG(known):
        with place.open("wb") as out:
            out.write(body)
        return
    draft = write_draft(place, body, private=private, durable=durable)
    try:
        if known is not None:
            draft.chmod(stat.S_IMODE(known))
        place_draft(draft, place, durable=durable)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_draft(
    path: Path, body: bytes | Iterable[bytes | memoryview], *, private: bool, durable: bool, name: str = ""
) -> Path:
    """Write a file, whole or in parts, beside `path` (as `name`, by default one that nobody else uses) and return it; `place_draft`
    moves it.
    """
    draft = path.with_name(name or f".{path.name[:100]}.{uuid4().hex}{NEW}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | (0 if name else os.O_EXCL)
    try:
        with os.fdopen(os.open(draft, flags, _FILE_MODE if private else _OPEN_MODE), "wb") as out:
            out.writelines((body,) if isinstance(body, bytes) else body)
            out.flush()
            if durable:
                os.fsync(out.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


def place_draft(draft: Path, path: Path, *, durable: bool = True) -> None:
    """Move a written file into its place, for good."""
    draft.replace(path)
    if durable:
        sync_folder(path.parent)


def write_chunks(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a new file, which its owner alone may read, piece by piece; what a failure leaves of it is the caller's to remove."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE), "wb") as out:
        for chunk in chunks:
            out.write(chunk)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, if the system supports that."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def make_private_folder(folder: Path) -> None:
    """Create a folder that only its owner may use, and its parents as usual; an existing one keeps its mode."""
    folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)


def make_private_file(path: Path) -> None:
    """Create an empty file that only its owner may read; an existing one is left as it is."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE))
    except FileExistsError:
        return


def private_mode(path: Path) -> int:
    """Return the mode of a file, or, where there is none, that of a file that only its owner may read."""
    known = _mode_of(path)
    return _FILE_MODE if known is None else stat.S_IMODE(known)


def _mode_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None
