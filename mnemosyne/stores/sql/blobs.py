"""Compression of the large parts of a turn (receipt, prompt, report) in a SQL store.

They make up most of a database: about 160 KB of repetitive JSON per turn, a sixth of that when compressed. JSON that an
older release wrote uncompressed is read as it is; it never begins like a compressed blob.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from mnemosyne.core.errors import UnreadableError

_LEVEL = 3
_LEAST_BYTES = 256
_PACKED = b"x"


def pack_blob(body: bytes) -> bytes:
    """Return the stored form of a blob's JSON: compressed, unless it is short or would not become smaller."""
    if len(body) < _LEAST_BYTES:
        return body
    small = zlib.compress(body, _LEVEL)
    return small if len(small) < len(body) else body


def unpack_blob(data: bytes) -> bytes:
    """Return the JSON of a stored blob, compressed or not; UnreadableError when it is neither."""
    try:
        return zlib.decompress(data) if bytes(data[:1]) == _PACKED else bytes(data)
    except zlib.error as error:
        raise UnreadableError(f"These bytes are not a compressed blob: {error}.", bytes(data)) from None


def change_blob(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return a stored blob after a change of its JSON; the same bytes if `change` returns its argument."""
    body = unpack_blob(data)
    done = change(body)
    return data if done is body else pack_blob(done)
