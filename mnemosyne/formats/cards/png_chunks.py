"""Finds the text chunks of a PNG without decoding the picture. A PNG is a sequence of chunks: length, type, body,
checksum.

The file may be damaged or hostile. A chunk that claims to reach beyond the end of the file is not read. A compressed text
is unpacked up to a limit, which grows with its packed size.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator

from mnemosyne.core.errors import CorpusError
from mnemosyne.values import dataclass

SIGNATURE = b"\x89PNG\r\n\x1a\n"
END_CHUNK = b"\x00\x00\x00\x00IEND\xaeB`\x82"
"""The complete chunk that ends a PNG."""
MOST_CHUNKS = 200_000
_MOST_KEYWORD_BYTES = 79
_FRAME_BYTES = 12
"""Length, type and checksum of a chunk."""
_TYPE = re.compile(rb"[A-Za-z]{4}\Z")
_TEXT_TYPES = (b"tEXt", b"zTXt", b"iTXt")
_MOST_TEXT_BYTES = 48_000_000
_MOST_GROWTH, _GROWTH_BYTES = 100, 4_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class TextChunk:
    """A text chunk. `keyword` is in lower case. The chunk takes the bytes of the file from `start` up to `end`."""

    kind: bytes
    keyword: str
    start: int
    end: int
    is_after_end: bool = False
    is_intact: bool = True
    """Whether the checksum is right."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PngChunks:
    """Text chunks of a PNG in the order of the file.

    `end` is the position of the chunk IEND. In a damaged file it is the position at which the damage begins. `notes` are
    sentences on the damage.
    """

    texts: tuple[TextChunk, ...]
    end: int
    notes: tuple[str, ...] = ()


def is_png(data: bytes) -> bool:
    """Return whether `data` begins with the signature of a PNG."""
    return data.startswith(SIGNATURE)


def walk_chunks(data: bytes) -> PngChunks:
    """Return the text chunks of a PNG. Raises CorpusError if `data` is not a PNG or has more than MOST_CHUNKS chunks."""
    if not is_png(data):
        raise CorpusError("is not a PNG: its first bytes are not those of one.")
    texts, position, end, damage = [], len(SIGNATURE), 0, ""
    for count, (kind, start, after) in enumerate(_chunks(data)):
        if count >= MOST_CHUNKS:
            raise CorpusError(f"has more than {MOST_CHUNKS:,} chunks; save the picture again with a picture editor.")
        position = after
        if kind == b"IEND":
            end = end or start
        elif kind in _TEXT_TYPES and (keyword := _keyword_of(data, start, after)):
            is_intact = zlib.crc32(memoryview(data)[start + 4 : after - 4]) == _number(data, after - 4)
            texts.append(
                TextChunk(
                    kind=kind, keyword=keyword, start=start, end=after, is_after_end=bool(end), is_intact=is_intact
                )
            )
    if not end:
        damage = f"The PNG is cut off or damaged at byte {position + 1:,}: what follows was not read."
    return PngChunks(texts=tuple(texts), end=end or position, notes=(damage,) if damage else ())


def chunk_text(data: bytes, chunk: TextChunk) -> bytes:
    """Return the unpacked text of a chunk. Raises CorpusError if the text cannot be unpacked or exceeds `growth_limit`."""
    body = data[chunk.start + 8 : chunk.end - 4]
    text = body.partition(b"\0")[2]
    if chunk.kind == b"tEXt":
        return text
    if chunk.kind == b"zTXt":
        return _unpack(text[1:], chunk.keyword)
    is_packed, rest = text[:1] == b"\x01", text[2:].partition(b"\0")[2].partition(b"\0")[2]
    return _unpack(rest, chunk.keyword) if is_packed else rest


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """Return the bytes of a complete chunk, with length and checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def without_chunks(data: bytes, chunks: PngChunks, keywords: frozenset[str]) -> bytes:
    """Return a PNG without the text chunks whose keyword is in `keywords` and without anything after its end. The result
    ends with END_CHUNK.
    """
    parts, position = [], 0
    for chunk in chunks.texts:
        if chunk.keyword in keywords and chunk.end <= chunks.end:
            parts.append(data[position : chunk.start])
            position = chunk.end
    return b"".join((*parts, data[position : chunks.end], END_CHUNK))


def growth_limit(packed_bytes: int) -> int:
    """Return the maximum number of bytes to which a text of `packed_bytes` bytes may unpack."""
    return min(_MOST_TEXT_BYTES, _GROWTH_BYTES + _MOST_GROWTH * packed_bytes)


def _chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield (type, start, end) of each complete chunk."""
    position = len(SIGNATURE)
    while position + _FRAME_BYTES <= len(data):
        kind = data[position + 4 : position + 8]
        after = position + _FRAME_BYTES + _number(data, position)
        if after > len(data) or _TYPE.match(kind) is None:
            return
        yield kind, position, after
        position = after


def _keyword_of(data: bytes, start: int, after: int) -> str:
    body = data[start + 8 : min(start + 9 + _MOST_KEYWORD_BYTES, after - 4)]
    keyword, end, _ = body.partition(b"\0")
    return keyword.decode("latin-1").strip().lower() if end else ""


def _number(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 4], "big")


def _unpack(packed: bytes, keyword: str) -> bytes:
    most = growth_limit(len(packed))
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(packed, most + 1)
    except zlib.error as error:
        raise CorpusError(f"has a text chunk {keyword!r} that cannot be unpacked ({error}).") from None
    if len(text) > most:
        raise CorpusError(f"has a text chunk {keyword!r} that unpacks to more than {most:,} bytes.")
    return text
