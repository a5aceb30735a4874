"""Reads and writes a file of named numpy arrays. The file is mapped into memory, so that unused parts cost nothing.

Each array has a checksum, which is verified when the file is opened (3 GB a second). A file is always replaced as a
whole and never changed, so a mapped file stays the same.
"""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mnemosyne.core.codec import decode, encode
from mnemosyne.core.errors import UnreadableError
from mnemosyne.files import place_draft, write_draft
from mnemosyne.values import dataclass

_MAGIC = b"JQARR001"
_ALIGNED = 64
_PREFIX_BYTES = 24

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """Place of an array: `start` counts from the end of the head; `sum` is the CRC-32 of its bytes."""

    kind: str
    shape: tuple[int, ...]
    start: int
    sum: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Head:
    about: bytes
    parts: dict[str, _Part]


def write_arrays(file: Path, about: bytes, arrays: Mapping[str, Array]) -> None:
    """Write `arrays`, and the bytes `about` that describe them, into a file that only its owner may read.

    Either the whole file is written or nothing. Raises OSError if the file cannot be written.
    """
    parts, start = dict[str, _Part](), 0
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    for name, array in whole.items():
        parts[name] = _Part(kind=array.dtype.str, shape=array.shape, start=start, sum=zlib.crc32(_bytes_of(array)))
        start += -(-array.nbytes // _ALIGNED) * _ALIGNED
    head = encode(_Head(about=about, parts=parts))
    head += b" " * (-(_PREFIX_BYTES + len(head)) % _ALIGNED)
    draft = write_draft(file, _file_parts(head, whole.values()), private=True, durable=False)
    try:
        # Without a flush to the disk: a torn file is noticed by its checksums, and is only made again.
        place_draft(draft, file, durable=False)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _file_parts(head: bytes, arrays: Iterable[Array]) -> Iterator[bytes | memoryview]:
    yield _MAGIC + len(head).to_bytes(8, "little") + zlib.crc32(head).to_bytes(8, "little") + head
    for array in arrays:
        yield _bytes_of(array)
        yield bytes(-array.nbytes % _ALIGNED)


def map_arrays(file: Path) -> tuple[bytes, dict[str, Array]]:
    """Return (about, arrays), the arguments with which `write_arrays` wrote the file. Changes of the arrays are not written to
    the file.

    Raises:
        UnreadableError: if the file is damaged or of another release.
        OSError: if the file cannot be read.
        ValueError: if the file is empty.
    """
    data = _map(file)
    prefix = bytes(data[:_PREFIX_BYTES])
    size = int.from_bytes(prefix[8:16], "little")
    head = _read_head(prefix, bytes(data[_PREFIX_BYTES : _PREFIX_BYTES + size]))
    arrays = dict[str, Array]()
    for name, part in head.parts.items():
        kind, count = np.dtype(part.kind), int(np.prod(part.shape, dtype=np.int64))
        start = _PREFIX_BYTES + size + part.start
        if start + count * kind.itemsize > len(data):
            raise UnreadableError(f"{file.name} is cut off", prefix)
        array = np.frombuffer(data, dtype=kind, count=count, offset=start).reshape(part.shape)
        if zlib.crc32(_bytes_of(array)) != part.sum:
            raise UnreadableError(f"{file.name} is damaged at {name!r}", prefix)
        arrays[name] = array
    return head.about, arrays


def _read_head(prefix: bytes, head: bytes) -> _Head:
    if prefix[:8] != _MAGIC or zlib.crc32(head) != int.from_bytes(prefix[16:], "little"):
        raise UnreadableError("a file of arrays is damaged or of another release", prefix)
    return decode(head, _Head)


def _map(file: Path) -> mmap.mmap | bytearray:
    if os.name == "nt":
        # There a mapped file can neither be replaced nor removed.
        return bytearray(file.read_bytes())
    with file.open("rb") as opened:
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)


def _bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
