"""Holds the vectors of one scope in memory and finds those nearest to a vector.

Few vectors are all compared exactly. Many vectors are first compared by the signs of their values (one bit each), and only the
likely ones exactly. The owner (`table.py`) decides which rows are searched and serialises the calls. This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.text.lexical import Mask

_SIGN_ROWS = 10_000
_SIGN_OVERSAMPLE = 40
_SIGN_SHARE = 8
_LIKELY_OVERSAMPLE = 20
_LIKELY_SHARE = 32
_PLANES = 4
_LEVELS = 1 << _PLANES
_GATHERED = 512
_SPARE_ROWS = 32

RowNumbers = npt.NDArray[np.int64]


class VectorRows:
    """Vectors of length 1 by slot, the number of a row. A slot without a vector holds zeros."""

    def __init__(self) -> None:
        self._rows: Vectors | None = None
        self._signs: npt.NDArray[np.uint64] | None = None
        self._signed = 0

    @classmethod
    def restore(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> VectorRows:
        """Return vectors from the result of `freeze`."""
        vectors = cls()
        if "vectors" in arrays:
            vectors._rows = arrays["vectors"]
        if "signs" in arrays:
            vectors._signs, vectors._signed = arrays["signs"], arrays["signs"].shape[1]
        return vectors

    def freeze(self, rows: int) -> dict[str, npt.NDArray[Any]]:
        """Return the vectors of the first `rows` rows as arrays by name. If there are so many that signs are compared first, the
        signs are included.

        The arrays stay valid, because later changes only add rows.
        """
        if self._rows is None:
            return {}
        held = self._rows[:rows]
        return {"vectors": held, "signs": self._sign_rows(len(held)).copy()} if rows > _SIGN_ROWS else {"vectors": held}

    def memory_bytes(self) -> int:
        """Return how many bytes the arrays take."""
        return sum(each.nbytes for each in (self._rows, self._signs) if each is not None)

    @property
    def width(self) -> int:
        """Number of dimensions; 0 while there are no vectors."""
        return 0 if self._rows is None else self._rows.shape[1]

    def take(self, rows: Vectors) -> None:
        """Use the array `rows` as the vectors, one row per slot from 0 on."""
        self._rows, self._signs, self._signed = rows, None, 0

    def put(self, slots: Sequence[int], vectors: Sequence[Vectors], capacity: int) -> None:
        """Write `vectors` for `slots`, which have no vectors yet. `capacity` is the total number of slots to reserve."""
        if self._rows is None or len(self._rows) < capacity:
            held = 0 if self._rows is None else len(self._rows)
            wider = np.zeros((max(capacity, 2 * held, 16), len(vectors[0])), dtype=np.float32)
            if self._rows is not None:
                wider[:held] = self._rows
            self._rows = wider
        for slot, vector in zip(slots, vectors, strict=True):
            self._rows[slot] = vector

    def pack(self, keep: Mask) -> None:
        """Drop the slots that are False in `keep`; later slots move up."""
        if self._rows is not None:
            self.take(self._rows[: len(keep)][keep[: len(self._rows)]])

    def forget(self) -> None:
        """Drop all vectors."""
        self._rows, self._signs, self._signed = None, None, 0

    def nearest(self, vector: Vectors, admitted: Mask, limit: int) -> tuple[RowNumbers, Vectors]:
        """Return (slots, cosines) of admitted rows. The best `limit` of all admitted rows are among them.

        The result is exact up to 10,000 admitted rows. Above that there are three steps:

        1. The rows whose signs differ least are selected: an eighth of all, and at least 40 x limit.
        2. These are scored by their signs, weighted with the magnitudes in the vector, and the best are selected: a 32nd of
           all, and at least 20 x limit.
        3. These are compared exactly.
        """
        if self._rows is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        # Slots after the last vector have none.
        admitted = admitted[: len(self._rows)]
        rows, among = self._rows[: len(admitted)], int(np.count_nonzero(admitted))
        most = max(limit * _SIGN_OVERSAMPLE, among // _SIGN_SHARE)
        if among <= max(_SIGN_ROWS, most):
            slots = np.flatnonzero(admitted)
        else:
            slots = self._closest_by_signs(vector, admitted, most)
            likely = max(limit * _LIKELY_OVERSAMPLE, among // _LIKELY_SHARE)
            if len(slots) > likely:
                slots = np.sort(slots[np.argpartition(-self._estimates(vector, slots), likely)[:likely]])
        return slots, _cosines(rows, slots, vector)

    def best(self, vector: Vectors, admitted: Mask, limit: int) -> tuple[RowNumbers, npt.NDArray[np.float64]]:
        """Return (slots, cosines) of at least the best `limit` rows of `nearest`, with cosines that are the same on all hosts.

        Hosts have the same rows in different orders, and a product of matrices would be rounded differently for each order.
        """
        slots, cosines = self.nearest(vector, admitted, limit)
        if len(slots) > limit + _SPARE_ROWS:
            slots = np.sort(slots[np.argpartition(-cosines, limit + _SPARE_ROWS)[: limit + _SPARE_ROWS]])
        if self._rows is None or not len(slots):
            return slots, cosines.astype(np.float64)
        found: npt.NDArray[np.float64] = (self._rows[slots].astype(np.float64) * vector).sum(axis=1)
        return slots, found

    def _closest_by_signs(self, vector: Vectors, admitted: Mask, most: int) -> RowNumbers:
        """Return about `most` admitted slots: those whose signs differ least from the vector's."""
        apart = self._sign_distances(vector, len(admitted))
        never = len(vector) + 1
        if not admitted.all():
            np.copyto(apart, never, where=~admitted)
        closer = np.cumsum(np.bincount(apart, minlength=never)[:never])
        return np.flatnonzero(apart <= max(int(np.searchsorted(closer, most, side="right")) - 1, int(apart.min())))

    def _estimates(self, vector: Vectors, slots: RowNumbers) -> Vectors:
        """Return for each slot a score that orders them almost as the cosine does: the product of its signs with the
        vector.

        The vector is quantised to 16 steps, as four bit planes; each row then costs only counting the bits that it
        shares with each plane.
        """
        least, most = float(vector.min()), float(vector.max())
        steps = np.round((vector - least) * ((_LEVELS - 1) / max(most - least, 1e-9))).astype(np.uint8)
        planes = _sign_codes((steps >> np.arange(_PLANES, dtype=np.uint8)[:, None] & 1).astype(np.float32))
        signs = self._sign_rows(int(slots[-1]) + 1)
        held = np.zeros(len(slots), dtype=np.uint16)
        common = np.zeros((_PLANES, len(slots)), dtype=np.uint16)
        word, both = np.empty((2, len(slots)), dtype=np.uint64)
        counted = np.empty(len(slots), dtype=np.uint8)
        for column, own in zip(signs, planes.T, strict=True):
            held += np.bitwise_count(np.take(column, slots, out=word, mode="clip"), out=counted)
            for plane, bits in zip(common, own, strict=True):
                plane += np.bitwise_count(np.bitwise_and(word, bits, out=both), out=counted)
        size = np.float32((most - least) / (_LEVELS - 1))
        found = held * np.float32(least)
        for power, plane in enumerate(common):
            found += plane * (size * np.float32(1 << power))
        return np.asarray(found, dtype=np.float32)

    def _sign_distances(self, vector: Vectors, rows: int) -> npt.NDArray[np.uint16]:
        """Return the number of signs in which each row differs from the vector.

        Signs are stored as one row per word of 64 dimensions, because numpy counts along long rows twenty times faster.
        """
        signs, code = self._sign_rows(rows), _sign_codes(vector[None, :])[0]
        apart = np.zeros(rows, dtype=np.uint16)
        differing, counted = np.empty(rows, dtype=np.uint64), np.empty(rows, dtype=np.uint8)
        for word, own in zip(signs, code, strict=True):
            np.bitwise_xor(word, own, out=differing)
            apart += np.bitwise_count(differing, out=counted)
        return apart

    def _sign_rows(self, rows: int) -> npt.NDArray[np.uint64]:
        """Return the signs of the first rows, computing those of new ones."""
        vectors = self._rows if self._rows is not None else np.zeros((0, 0), dtype=np.float32)
        if self._signs is None or self._signs.shape[1] < rows:
            wider = np.zeros((-(-vectors.shape[1] // 64), len(vectors)), dtype=np.uint64)
            if self._signs is not None:
                wider[:, : self._signed] = self._signs[:, : self._signed]
            self._signs = wider
        if self._signed < rows:
            self._signs[:, self._signed : rows] = _sign_codes(vectors[self._signed : rows]).T
            self._signed = rows
        return self._signs[:, :rows]


def _cosines(rows: Vectors, slots: RowNumbers, vector: Vectors) -> Vectors:
    """Return the dot products of some rows with a vector.

    Rows are gathered in blocks into one small buffer: copying all of them costs twice as much, mostly for new memory.
    Gathering half of the rows costs as much as multiplying all.
    """
    if len(slots) * 2 > len(rows):
        return np.asarray((rows @ vector)[slots], dtype=np.float32)
    found = np.empty(len(slots), dtype=np.float32)
    buffer = np.empty((min(_GATHERED, len(slots)), rows.shape[1]), dtype=np.float32)
    for first in range(0, len(slots), _GATHERED):
        block = slots[first : first + _GATHERED]
        gathered = np.take(rows, block, axis=0, out=buffer[: len(block)], mode="clip")
        np.dot(gathered, vector, out=found[first : first + len(block)])
    return found


def _sign_codes(vectors: Vectors) -> npt.NDArray[np.uint64]:
    bits = np.packbits(vectors > 0.0, axis=1)
    short = -bits.shape[1] % 8
    whole = np.pad(bits, ((0, 0), (0, short))) if short else bits
    return np.ascontiguousarray(whole).view(np.uint64)
