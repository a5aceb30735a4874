"""Reads members (files) of zip archives from untrusted sources, in memory and within limits.

Only `unpack_archive` writes members to disk. The unpacked bytes of a member are counted, because the size that the archive states
may be wrong.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mnemosyne.core.errors import CorpusError
from mnemosyne.files import write_file

ZIP_MARK = b"PK\x03\x04"
"""First bytes of a zip archive."""
MOST_MEMBERS = 20_000
_MOST_READ_BYTES, _READ_BYTES = 4_000_000, 1_000_000
_IS_ENCRYPTED = 0x1
_READABLE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_WRONG_NAME = re.compile(r"[\x00-\x1f\x7f\\\\:*?\"<>|]|(?:^|/)\.*(?:/|$)")
"""Matches a name of a file that is refused: with an empty part, a part of dots, a backslash, a colon or a control character."""
_NOT_FILES = re.compile(r"__MACOSX/|(?:.*/)?(?:\.DS_Store|Thumbs\.db|desktop\.ini)$")
"""Matches members that a system adds to every archive."""
_DAMAGE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    OverflowError,
    struct.error,
)


class _BoundedFile(io.FileIO):
    """A file of which no single read returns more than _MOST_READ_BYTES, because an archive whose list of files is larger
    is an attack.
    """

    def read(self, size: int | None = -1, /) -> bytes:
        most = _MOST_READ_BYTES + 1 if size is None or size < 0 else min(size, _MOST_READ_BYTES + 1)
        data = super().read(most) or b""
        if len(data) > _MOST_READ_BYTES:
            raise CorpusError("is an archive whose list of files is too large.")
        return data


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive for a `with` block.

    Raises CorpusError, with `path` in its text, if `path` is not a zip archive that can be read, has more than
    MOST_MEMBERS files, or turns out to be damaged inside the block.
    """
    if not path.is_file():
        raise CorpusError(f"{path}: {'is not a regular file' if path.exists() else 'there is no such file'}.")
    try:
        with _BoundedFile(path) as file, zipfile.ZipFile(file) as archive:
            if len(archive.infolist()) > MOST_MEMBERS:
                raise CorpusError(f"holds more than {MOST_MEMBERS:,} files; take the others out.")
            yield archive
    except CorpusError as error:
        sentence = str(error)
        raise CorpusError(sentence if sentence.startswith(f"{path}:") else f"{path}: {sentence}") from None
    except NotImplementedError as error:
        raise CorpusError(
            f"{path}: is packed in a way that is not read ({error}); pack it again as a plain zip."
        ) from None
    except _DAMAGE as error:
        raise CorpusError(f"{path}: cannot be read as a zip archive ({error}).") from None


def member_names(path: Path) -> frozenset[str]:
    """Return the names of the files in an archive. The result is empty if the file is not an archive or is damaged."""
    try:
        with open_archive(path) as archive:
            return frozenset(archive.NameToInfo)
    except CorpusError:
        return frozenset()


def read_member(archive: zipfile.ZipFile, name: str, most_bytes: int) -> bytes:
    """Return the unpacked bytes of the file `name` in an archive.

    Raises CorpusError if the file is missing, encrypted, packed by an unknown method, or larger than `most_bytes`. The
    text of the error does not contain the path of the archive; `open_archive` adds it.
    """
    info = archive.NameToInfo.get(name)
    if info is None:
        raise CorpusError(f"has no {name} at its root.")
    if info.flag_bits & _IS_ENCRYPTED:
        raise CorpusError(f"{name} is encrypted; unpack the archive with its password and pack it without one.")
    if info.compress_type not in _READABLE:
        raise CorpusError(f"{name} is packed by a method that is not read; pack it again as a plain zip.")
    data = bytearray()
    with archive.open(info) as member:
        while part := member.read(_READ_BYTES):
            data += part
            if len(data) > most_bytes:
                raise CorpusError(f"{name} unpacks to more than {most_bytes:,} bytes, which is more than is read.")
    return bytes(data)


def unpack_archive(path: Path, folder: Path, most_bytes: int) -> None:
    """Write the members of the archive `path` into the new folder `folder`. If all members are in one folder of the archive, that
    folder is left out.

    Raises CorpusError if the archive cannot be read, or if its members unpack to more than `most_bytes` bytes together. Raises
    CorpusError if a member has a name that could lead out of `folder`. Then `folder` may have some of the members.
    """
    with open_archive(path) as archive:
        names = [each for each in archive.NameToInfo if not each.endswith("/") and not _NOT_FILES.match(each)]
        if wrong := next((each for each in names if _WRONG_NAME.search(each)), None):
            raise CorpusError(
                f"has a file named {wrong[:60]!r}, which is not unpacked; pack it again without that file."
            )
        tops = {each.partition("/")[0] for each in names if "/" in each}
        begin = len(next(iter(tops))) + 1 if len(tops) == 1 and all("/" in each for each in names) else 0
        left = most_bytes
        for name in names:
            data = read_member(archive, name, left)
            left -= len(data)
            place = folder / name[begin:]
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                write_file(place, data, private=True)
            except OSError as error:
                raise CorpusError(f"has the file {name[:60]!r}, which cannot be written ({error.strerror}).") from None
