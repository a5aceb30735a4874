"""Writes files atomically, and creates private files and folders.

Every file that matters is written by `write_file`. So a reader, also after a power failure, finds either the old or
the new content, never a part. An architecture test forbids other ways of writing. All functions here block.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

NEW = ".new"
"""Suffix of a file that is being written. Such a file that a killed process has left may be removed."""

_FILE_MODE, _FOLDER_MODE, _OPEN_MODE = 0o600, 0o700, 0o666


def write_file(path: Path, data: bytes | str, *, private: bool = False, durable: bool = True) -> None:
    """Write a file completely or not at all.

    The content is written to a file next to `path`, flushed to the disk, and moved into its place. Text is written as
    UTF-8. A symbolic link stays one. A path that names a device or a pipe is written to directly.

    Args:
        private: Whether only the owner may read and write a new file. If false, the umask decides. An existing file
            keeps its mode.
        durable: If false, the operating system may still have the content only in memory when this returns.

    Raises:
        OSError: if the file cannot be written; then nothing has changed.
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
    """Write `body` to a new file next to `path` and return the new file; `place_draft` then moves it into its place.

    `body` is the whole content or its parts. `name` is the name of the new file, by default a unique one.
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
    """Move the written file `draft` to `path`. If `durable`, the move is flushed to the disk."""
    draft.replace(path)
    if durable:
        sync_folder(path.parent)


def write_chunks(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a new file that only its owner may read, one chunk after the other.

    If this fails, the caller must remove the incomplete file.
    """
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE), "wb") as out:
        for chunk in chunks:
            out.write(chunk)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, if the system supports this."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def make_private_folder(folder: Path) -> None:
    """Create a folder that only its owner may use.

    Missing parents get the usual mode, and an existing folder keeps its mode.
    """
    folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)


def describe_folder_fault(error: OSError) -> str:
    """Return why a folder cannot be used, with advice if a file has its name."""
    is_a_file = isinstance(error, FileExistsError | NotADirectoryError)
    return "it is a file, or is below one; move that file" if is_a_file else str(error)


def make_private_file(path: Path) -> None:
    """Create an empty file that only its owner may read. An existing file is not changed."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE))
    except FileExistsError:
        return


def private_mode(path: Path) -> int:
    """Return the mode of a file or, if it does not exist, the mode of a new private file."""
    known = _mode_of(path)
    return _FILE_MODE if known is None else stat.S_IMODE(known)


def _mode_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None
