"""Encodes index rows as bytes (segments), for other hosts, and decodes them.

A segment contains rows as columns. All segments of a scope (session or world), in order, contain the rows of the scope. A host
that opens a scope from its segments need not split texts into words again. (The splitting takes most of the time of indexing,
0.35 ms an entry.) Vectors are float16. This module does no I/O and must not import an engine.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from mnemosyne.core.codec import decode, encode
from mnemosyne.core.errors import UnreadableError
from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.engines.rows import RowBatch, StoredScope
from mnemosyne.schema.memory import Chain
from mnemosyne.values import dataclass

_MAGIC = b"JSG1"
_HEAD_BYTES = 12
_SHORT_CODES = 1 << 16
_CHAINS = {chain: code for code, chain in enumerate(Chain)}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Names:
    """Words of a segment: each once, and referred to by its place."""

    ids: tuple[str, ...]
    removed: tuple[str, ...]
    branches: tuple[str | None, ...]
    models: tuple[str, ...]
    words: tuple[str, ...]
    codes: int
    vectors: int
    width: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Columns:
    """One segment, decoded: its columns as in `StoredScope`, whose codes refer to its own names."""

    names: _Names
    numbers: npt.NDArray[np.int64]
    codes: npt.NDArray[Any]
    placed: npt.NDArray[np.int32]
    vectors: npt.NDArray[np.float16]


def encode_segment(batch: RowBatch) -> bytes:
    """Return a batch as the bytes of a segment."""
    branches: dict[str | None, int] = {}
    models: dict[str, int] = {}
    words: dict[str, int] = {}
    rows = batch.rows
    codes = [words.setdefault(token, len(words)) for row in rows for token in row.tokens]
    numbers = [
        (
            _CHAINS[row.chain],
            branches.setdefault(row.branch_id, len(branches)),
            row.depth or 0,
            row.depth is not None,
            row.sequence,
            models.setdefault(row.model, len(models)),
            len(row.tokens),
        )
        for row in rows
    ]
    vectors = [row.vector for row in rows if row.vector is not None]
    names = _Names(
        ids=tuple(row.entry_id for row in rows),
        removed=batch.removed,
        branches=tuple(branches),
        models=tuple(models),
        words=tuple(words),
        codes=len(codes),
        vectors=len(vectors),
        width=len(vectors[0]) if vectors else 0,
    )
    placed = [place for place, row in enumerate(rows) if row.vector is not None]
    return _pack(names, np.asarray(numbers).reshape(len(rows), 7).T, codes, placed, vectors)


def encode_scope(stored: StoredScope) -> bytes:
    """Return all rows of a scope as the bytes of one segment."""
    placed = np.zeros(0, dtype=np.int64)
    if stored.vectors is not None:
        placed = np.flatnonzero(~np.isnan(stored.vectors[:, 0]))
    names = _Names(
        ids=stored.ids,
        removed=(),
        branches=stored.branches,
        models=stored.models,
        words=stored.words,
        codes=len(stored.codes),
        vectors=len(placed),
        width=0 if stored.vectors is None else stored.vectors.shape[1],
    )
    columns = (
        *(stored.chains, stored.branch_codes, stored.depths, stored.placed),
        *(stored.sequences, stored.model_codes, stored.lengths),
    )
    vectors = () if stored.vectors is None else stored.vectors[placed]
    return _pack(names, np.asarray(columns), stored.codes, placed, vectors)


def _pack(names: _Names, numbers: Any, codes: Any, placed: Any, vectors: Any) -> bytes:
    head = encode(names)
    body = (
        len(head).to_bytes(4, "little")
        + head
        + np.ascontiguousarray(numbers, dtype="<i8").tobytes()
        + np.asarray(codes, dtype=_code_type(names)).tobytes()
        + np.asarray(placed, dtype="<i4").tobytes()
        + np.asarray(vectors, dtype="<f2").tobytes()
    )
    return _MAGIC + zlib.crc32(body).to_bytes(4, "little") + body


def decode_segments(bodies: Sequence[bytes]) -> StoredScope | None:
    """Return the rows of the segments `bodies` as one `StoredScope`, in the order in which they were added.

    Return None if there are no rows. Raises UnreadableError if a segment is damaged.
    """
    parts = [_decode(body) for body in bodies]
    kept = _kept_rows(parts)
    if not kept.any():
        return None
    words: dict[str, int] = {}
    branches: dict[Any, int] = {}
    models: dict[Any, int] = {}
    own = np.split(kept, np.cumsum([len(part.names.ids) for part in parts])[:-1])
    numbers = np.concatenate([part.numbers for part in parts], axis=1)
    numbers[1] = np.concatenate([_renumber(branches, part.names.branches)[part.numbers[1]] for part in parts])
    numbers[5] = np.concatenate([_renumber(models, part.names.models)[part.numbers[5]] for part in parts])
    codes = [
        _renumber(words, part.names.words)[part.codes if mask.all() else part.codes[np.repeat(mask, part.numbers[6])]]
        for part, mask in zip(parts, own, strict=True)
    ]
    chains, branch_codes, depths, placed, sequences, model_codes, lengths = numbers[:, kept]
    return StoredScope(
        ids=tuple(compress((entry_id for part in parts for entry_id in part.names.ids), kept.tolist())),
        chains=chains.astype(np.int8),
        branches=tuple(branches),
        branch_codes=branch_codes.astype(np.int32),
        depths=depths.astype(np.int32),
        placed=placed.astype(np.bool_),
        sequences=sequences,
        models=tuple(models),
        model_codes=model_codes.astype(np.int32),
        words=tuple(words),
        codes=np.concatenate(codes),
        lengths=lengths,
        vectors=_vectors_of(parts, own),
    )


def _decode(body: bytes) -> _Columns:
    if len(body) < _HEAD_BYTES or body[:4] != _MAGIC or zlib.crc32(body[8:]) != int.from_bytes(body[4:8], "little"):
        raise UnreadableError("a segment of an index is damaged", body[:64])
    end = _HEAD_BYTES + int.from_bytes(body[8:_HEAD_BYTES], "little")
    names = decode(body[_HEAD_BYTES:end], _Names)
    rows = len(names.ids)
    numbers = np.frombuffer(body, dtype="<i8", count=7 * rows, offset=end).reshape(7, rows)
    codes = np.frombuffer(body, dtype=_code_type(names), count=names.codes, offset=end + numbers.nbytes)
    placed = np.frombuffer(body, dtype="<i4", count=names.vectors, offset=end + numbers.nbytes + codes.nbytes)
    floats = np.frombuffer(body, dtype="<f2", offset=end + numbers.nbytes + codes.nbytes + placed.nbytes)
    vectors = floats.reshape(names.vectors, names.width)
    return _Columns(names=names, numbers=numbers, codes=codes, placed=placed, vectors=vectors)


def _code_type(names: _Names) -> str:
    return "<u2" if len(names.words) <= _SHORT_CODES else "<u4"


def list_rows(body: bytes) -> list[tuple[str, int]]:
    """Return (entry id, sequence) for each row of the segment `body`. Raises UnreadableError if the segment is damaged."""
    part = _decode(body)
    return list(zip(part.names.ids, part.numbers[4].tolist(), strict=True))


def _kept_rows(parts: Sequence[_Columns]) -> npt.NDArray[np.bool_]:
    """Return which rows, of all segments together, count: the last of each id that was not removed after it."""
    places: dict[str, int] = {}
    first = 0
    for part in parts:
        for entry_id in part.names.removed:
            places.pop(entry_id, None)
        places.update(zip(part.names.ids, range(first, first + len(part.names.ids)), strict=True))
        first += len(part.names.ids)
    kept = np.zeros(first, dtype=np.bool_)
    kept[list(places.values())] = True
    return kept


def _renumber(known: dict[Any, int], names: Sequence[Any]) -> npt.NDArray[np.int32]:
    return np.fromiter((known.setdefault(name, len(known)) for name in names), dtype=np.int32, count=len(names))


def _vectors_of(parts: Sequence[_Columns], own: Sequence[npt.NDArray[np.bool_]]) -> Vectors | None:
    """Return the vectors of the kept rows, NaN if there is none or one of another width; None without any."""
    width = next((part.names.width for part in reversed(parts) if part.names.width), 0)
    if not width:
        return None
    found = np.full((sum(int(np.count_nonzero(mask)) for mask in own), width), np.nan, dtype=np.float32)
    first = 0
    for part, mask in zip(parts, own, strict=True):
        if part.names.width == width:
            # Where the kept rows of this part go.
            targets = first + np.cumsum(mask) - 1
            is_kept = mask[part.placed]
            found[targets[part.placed[is_kept]]] = part.vectors if is_kept.all() else part.vectors[is_kept]
        first += int(np.count_nonzero(mask))
    return found
