"""Walks over the chunks of a PNG by hand, for the texts in it. No pixel is decoded.

A file may be damaged, or made to be: a chunk is believed only as far as the file goes, and a compressed text is unpacked only up
to a limit that grows with its size.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from mnemosyne.core.errors import CorpusError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
END_CHUNK = b"\x00\x00\x00\x00IEND\xaeB`\x82"
"""The chunk that ends a PNG, whole."""
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
    """A text chunk: its keyword in lower case, and the bytes from `start` up to `end` of the file that it takes."""

    kind: bytes
    keyword: str
    start: int
    end: int
    is_after_end: bool = False
    is_intact: bool = True
    """Whether the checksum fits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PngChunks:
    """The text chunks of a PNG in the order of the file. `end` is where IEND begins, or where a damaged file ceases to be whole.

    `notes` are sentences on what is damaged.
    """

    texts: tuple[TextChunk, ...]
    end: int
    notes: tuple[str, ...] = ()


def is_png(data: bytes) -> bool:
    """Return whether bytes begin as a PNG does."""
    return data.startswith(SIGNATURE)


def walk_chunks(data: bytes) -> PngChunks:
    """Return the text chunks of a PNG; CorpusError for bytes that are none, and for one of more than MOST_CHUNKS chunks."""
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
    """Return the text of a chunk, unpacked; CorpusError for one that cannot be unpacked, or grows too much."""
    body = data[chunk.start + 8 : chunk.end - 4]
    text = body.partition(b"\0")[2]
    if chunk.kind == b"tEXt":
        return text
    if chunk.kind == b"zTXt":
        return _unpack(text[1:], chunk.keyword)
    is_packed, rest = text[:1] == b"\x01", text[2:].partition(b"\0")[2].partition(b"\0")[2]
    return _unpack(rest, chunk.keyword) if is_packed else rest


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """Return a whole chunk, with length and checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def without_chunks(data: bytes, chunks: PngChunks, keywords: frozenset[str]) -> bytes:
    """Return a PNG without its text chunks of some keywords and without what follows its end; it ends in END_CHUNK."""
    parts, position = [], 0
    for chunk in chunks.texts:
        if chunk.keyword in keywords and chunk.end <= chunks.end:
            parts.append(data[position : chunk.start])
            position = chunk.end
    return b"".join((*parts, data[position : chunks.end], END_CHUNK))


def growth_limit(packed_bytes: int) -> int:
    """Return how many bytes a text may have that is packed into `packed_bytes`."""
    return min(_MOST_TEXT_BYTES, _GROWTH_BYTES + _MOST_GROWTH * packed_bytes)


def _chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield type, start and end of each chunk that is whole."""
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
