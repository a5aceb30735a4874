"""Holds the postings of the newest documents for BM25, in arrays to which postings can be appended quickly.

A posting states that a term occurs in a document, and how often; it takes 12 bytes. A document is identified by its slot, a
running number. This module must not import an engine.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

NEWEST_DOCUMENTS = 64
"""Number of newest documents whose postings are not kept sorted. They are sorted by term at the first search after a change.
The postings of older documents stay sorted.
"""

Codes = npt.NDArray[np.int32]
Slots = npt.NDArray[np.int32]
Parts = npt.NDArray[np.float32]
Columns = tuple[Codes, Slots, Parts]
"""Term code, slot and count of each posting, sorted by code and then by slot."""


class PostingTail:
    """For each term, the slots of the documents that contain it, and how often. Terms are numbers (`codes`). Slots
    must be added in ascending order. Not thread-safe.
    """

    def __init__(self) -> None:
        self.documents = 0
        self._older: Columns = _EMPTY
        self._begin_newest()

    def _begin_newest(self) -> None:
        self._newest = 0
        self._codes, self._slots, self._counts = array("i"), array("i"), array("f")
        self._newest_columns: Columns | None = _EMPTY

    def append(self, slot: int, codes: Collection[int], counts: Iterable[int]) -> None:
        """Add a document at `slot`: the codes of its different terms, and how often each occurs."""
        self._codes.extend(codes)
        self._slots.extend([slot] * len(codes))
        self._counts.extend(counts)
        self._newest_columns = None
        self._newest += 1
        self.documents += 1
        if self._newest > NEWEST_DOCUMENTS:
            self._older = self.columns()
            self._begin_newest()

    def find(self, codes: Sequence[int]) -> Iterator[Columns]:
        """Yield the postings of the terms `codes` (-1: an unknown term), the postings of older documents first.

        In the result, the code of a posting is replaced by the index of its term in `codes`. Each of the two parts is sorted by
        this index and then by slot.
        """
        # Of the type of the codes, which are converted as a whole else.
        begin = np.array(codes, dtype=np.int32)
        for known, slots, counts in (self._older, self._sorted_newest()):
            starts, ends = known.searchsorted(begin), known.searchsorted(begin + np.int32(1))
            held = ends - starts
            if len(known) and (total := int(held.sum())):
                # The number of each posting: from the start of its term on.
                numbers = np.arange(total) + np.repeat(starts - np.cumsum(held) + held, held)
                places = np.repeat(np.arange(len(begin), dtype=np.int32), held)
                yield places, slots.take(numbers), counts.take(numbers)

    def columns(self) -> Columns:
        """Return all postings, sorted by code and then by slot."""
        # What is newer has later slots, so a stable sort keeps those of each term in order.
        pairs = zip(self._older, self._sorted_newest(), strict=True)
        codes, slots, counts = (np.concatenate([older, newer]) for older, newer in pairs)
        return _sort(codes, slots, counts)

    def memory_bytes(self) -> int:
        """Return how many bytes the postings take."""
        newest = (self._codes, self._slots, self._counts)
        made = (*self._older, *(self._newest_columns or _EMPTY))
        return sum(each.nbytes for each in made) + sum(map(sys.getsizeof, newest))

    def _sorted_newest(self) -> Columns:
        if self._newest_columns is None:
            codes, slots = (np.frombuffer(each, dtype=np.int32) for each in (self._codes, self._slots))
            self._newest_columns = _sort(codes, slots, np.frombuffer(self._counts, dtype=np.float32))
        return self._newest_columns


def stable_order(codes: Codes) -> npt.NDArray[np.int64]:
    """Return the order that sorts `codes` (all >= 0); equal codes keep their present order.

    Sorting 16 bits at a time is five times faster, because numpy then sorts by radix.
    """
    order = np.argsort((codes & 0xFFFF).astype(np.uint16), kind="stable")
    high = (codes >> 16).astype(np.uint16)
    return order[np.argsort(high[order], kind="stable")] if high.any() else order


_EMPTY: Columns = (np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32))


def _sort(codes: Codes, slots: Slots, counts: Parts) -> Columns:
    order = stable_order(codes)
    return codes[order], slots[order], counts[order]
