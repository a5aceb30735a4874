"""The vectors of one scope in memory and the search for the nearest: exact among few, by signs and then exactly among many.

Calculation only. Its owner (`table.py`) says which rows count and lets one caller in at a time.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache

import numpy as np
import numpy.typing as npt

from mnemosyne.index.lexical import Mask
from mnemosyne.protocols import Vectors

_SIGN_ROWS = 10_000
_SIGN_OVERSAMPLE = 40
_SIGN_SHARE = 8
_WAVE_SHARE = 32
_WAVE_ROWS = 2_048
_NEWS = 0.02
_GATHERED = 512

RowNumbers = npt.NDArray[np.int64]


class VectorRows:
    """Vectors of length 1 by slot; slots that were given none hold zeros."""

    def __init__(self) -> None:
        self._rows: Vectors | None = None
        self._signs: npt.NDArray[np.uint64] | None = None
        self._signed = 0

    @property
    def width(self) -> int:
        """The dimensions; 0 while there are no vectors."""
        return 0 if self._rows is None else self._rows.shape[1]

    def take(self, rows: Vectors) -> None:
        """Take over an array, one row a slot from 0 on."""
        self._rows, self._signs, self._signed = rows, None, 0

    def put(self, slots: Sequence[int], vectors: Sequence[Vectors], room: int) -> None:
        """Write vectors of slots that had none; `room` slots will be used in all."""
        if self._rows is None or len(self._rows) < room:
            held = 0 if self._rows is None else len(self._rows)
            wider = np.zeros((max(room, 2 * held, 16), len(vectors[0])), dtype=np.float32)
            if self._rows is not None:
                wider[:held] = self._rows
            self._rows = wider
        for slot, vector in zip(slots, vectors, strict=True):
            self._rows[slot] = vector

    def pack(self, keep: Mask) -> None:
        """Drop the slots that `keep` does not name; those behind move up."""
        if self._rows is not None:
            self.take(self._rows[: len(keep)][keep[: len(self._rows)]])

    def forget(self) -> None:
        """Drop all vectors."""
        self._rows, self._signs, self._signed = None, None, 0

    def nearest(self, vector: Vectors, admitted: Mask, limit: int) -> tuple[RowNumbers, Vectors]:
        """Return admitted slots, the best `limit` by cosine among them, and their cosines.

        Exact up to 10,000 admitted rows. Above that the rows whose signs differ least are compared exactly, a wave after the
        other, until one brings almost nothing new, at most an eighth of all (and no fewer than 40 x limit).
        """
        if self._rows is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        # Slots behind the last vector have none.
        admitted = admitted[: len(self._rows)]
        rows, among = self._rows[: len(admitted)], int(np.count_nonzero(admitted))
        most = max(limit * _SIGN_OVERSAMPLE, among // _SIGN_SHARE)
        if among <= max(_SIGN_ROWS, most):
            slots = np.flatnonzero(admitted)
            return slots, _cosines(rows, slots, vector)
        best, scores = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        for late in self._waves(vector, admitted, most, max(_WAVE_ROWS, among // _WAVE_SHARE)):
            known = len(best)
            best, scores = np.concatenate([best, late]), np.concatenate([scores, _cosines(rows, late, vector)])
            if len(best) > limit:
                keep = np.argpartition(-scores, limit)[:limit]
                best, scores = best[keep], scores[keep]
                if np.count_nonzero(keep >= known) < _NEWS * limit:
                    break
        return best, scores

    def _waves(self, vector: Vectors, admitted: Mask, most: int, wave: int) -> Iterator[RowNumbers]:
        """Yield about `most` admitted slots, about `wave` at a time: first those that differ in the fewest signs."""
        apart = self._apart(vector, len(admitted))
        apart[~admitted] = never = len(vector) + 1
        closer = np.cumsum(np.bincount(apart, minlength=never)[:never])
        last = max(int(np.searchsorted(closer, most, side="right")) - 1, int(apart.min()))
        close = np.flatnonzero(apart <= last)
        steps, low = apart[close], -1
        while low < last:
            taken = int(closer[low]) if low >= 0 else 0
            high = max(int(np.searchsorted(closer, taken + wave, side="right")) - 1, low + 1)
            yield close[(steps > low) & (steps <= high)]
            low = high

    def _apart(self, vector: Vectors, rows: int) -> npt.NDArray[np.uint16]:
        """Return in how many signs each row differs from the vector.

        Signs are kept a word of 64 dimensions a row, because numpy counts along long rows twenty times faster.
        """
        signs, code = self._coded(rows), _sign_codes(vector[None, :])[0]
        apart = np.zeros(rows, dtype=np.uint16)
        differing, counted = np.empty(rows, dtype=np.uint64), np.empty(rows, dtype=np.uint8)
        for word, own in zip(signs, code, strict=True):
            np.bitwise_xor(word, own, out=differing)
            apart += np.bitwise_count(differing, out=counted)
        return apart

    def _coded(self, rows: int) -> npt.NDArray[np.uint64]:
        """Return the signs of the first rows, those of new ones made now."""
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
    """Return the product of some rows with a vector.

    Rows are gathered a block at a time into one small room: a copy of all of them costs twice as much, most of it for fresh
    memory. Gathering half of the rows costs as much as multiplying all.
    """
    if len(slots) * 2 > len(rows):
        return np.asarray((rows @ vector)[slots], dtype=np.float32)
    found = np.empty(len(slots), dtype=np.float32)

    def multiply(blocks: Iterator[int]) -> None:
        room = np.empty((min(_GATHERED, len(slots)), rows.shape[1]), dtype=np.float32)
        for first in blocks:
            block = slots[first : first + _GATHERED]
            gathered = np.take(rows, block, axis=0, out=room[: len(block)], mode="clip")
            np.dot(gathered, vector, out=found[first : first + len(block)])

    _shared(multiply, range(0, len(slots), _GATHERED))
    return found


def _shared(work: Callable[[Iterator[int]], None], blocks: Sequence[int]) -> None:
    """Work through all blocks, with another thread if one is free: whoever is done takes the next. Numpy lets go of the
    interpreter meanwhile.
    """
    todo = deque(blocks)

    def taken() -> Iterator[int]:
        with suppress(IndexError):
            while True:
                yield todo.popleft()

    helpers = _helpers() if len(todo) > 1 else None
    helping = helpers.submit(work, taken()) if helpers is not None else None
    work(taken())
    if helping is not None and not helping.cancel():
        helping.result()


@cache
def _helpers() -> ThreadPoolExecutor | None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ThreadPoolExecutor(cores - 1, thread_name_prefix="nearest") if cores > 1 else None


def _sign_codes(vectors: Vectors) -> npt.NDArray[np.uint64]:
    bits = np.packbits(vectors > 0.0, axis=1)
    short = -bits.shape[1] % 8
    whole = np.pad(bits, ((0, 0), (0, short))) if short else bits
    return np.ascontiguousarray(whole).view(np.uint64)
