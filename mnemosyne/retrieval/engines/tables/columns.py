"""Holds the columns of a table of index rows in memory, as parallel arrays. Words and vectors are elsewhere.

A slot is the number of a row in its table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mnemosyne.retrieval.text.lexical import Mask


class RowView:
    """Some rows of `RowColumns`. The fields have the same meaning."""

    __slots__ = ("alive", "branch", "chain", "depth", "seen", "sequence")

    def __init__(self, columns: RowColumns, rows: slice | npt.NDArray[np.int64]) -> None:
        self.alive = columns.alive[rows]
        self.branch = columns.branch[rows]
        self.chain = columns.chain[rows]
        self.depth = columns.depth[rows]
        self.seen = columns.seen[rows]
        self.sequence = columns.sequence[rows]


class RowColumns:
    """Parallel arrays with spare capacity.

    `alive` is False for a removed row. `seen` is True if an embedder has processed the row. A row without a depth has the
    depth 0, and `placed` is False.
    """

    names = ("alive", "seen", "has_vector", "placed", "chain", "branch", "depth", "sequence")

    def __init__(self) -> None:
        self.alive: Mask = np.zeros(16, dtype=np.bool_)
        self.seen: Mask = np.zeros(16, dtype=np.bool_)
        self.has_vector: Mask = np.zeros(16, dtype=np.bool_)
        self.placed: Mask = np.zeros(16, dtype=np.bool_)
        self.chain = np.zeros(16, dtype=np.int8)
        self.branch = np.zeros(16, dtype=np.int32)
        self.depth = np.zeros(16, dtype=np.int32)
        self.sequence = np.zeros(16, dtype=np.int64)

    @classmethod
    def restore(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> RowColumns:
        """Return columns from the result of `copy`."""
        columns = cls()
        for name in cls.names:
            setattr(columns, name, arrays[name].copy())
        return columns

    def copy(self, rows: int) -> dict[str, npt.NDArray[Any]]:
        """Return a copy of the first `rows` rows of each column, by the column's name."""
        return {name: getattr(self, name)[:rows].copy() for name in self.names}

    def memory_bytes(self) -> int:
        """Return how many bytes the arrays take."""
        return sum(getattr(self, name).nbytes for name in self.names)

    def view(self, rows: int) -> RowView:
        """Return the first `rows` rows."""
        return RowView(self, slice(rows))

    def at(self, slots: npt.NDArray[np.int64]) -> RowView:
        """Return the rows in `slots`."""
        return RowView(self, slots)

    def write(
        self,
        first: int,
        chains: Sequence[int],
        branches: Sequence[int],
        depths: Sequence[int | None],
        sequences: Sequence[int],
        seen: Sequence[bool],
    ) -> None:
        """Write rows from slot `first` on. They have no vectors yet."""
        end = first + len(chains)
        if end > len(self.alive):
            for name in self.names:
                old = getattr(self, name)
                wider = np.zeros(max(end, 2 * len(old)), dtype=old.dtype)
                wider[:first] = old[:first]
                setattr(self, name, wider)
        self.chain[first:end], self.branch[first:end] = chains, branches
        self.depth[first:end] = [depth or 0 for depth in depths]
        self.placed[first:end] = [depth is not None for depth in depths]
        self.sequence[first:end], self.seen[first:end] = sequences, seen
        self.alive[first:end], self.has_vector[first:end] = True, False

    def fill(
        self,
        chain: npt.NDArray[np.int8],
        branch: npt.NDArray[np.int32],
        depth: npt.NDArray[np.int32],
        placed: Mask,
        sequence: npt.NDArray[np.int64],
        seen: Mask,
    ) -> None:
        """Replace all columns by copies of the arguments. No row has a vector yet."""
        self.chain, self.branch, self.depth = chain.copy(), branch.copy(), depth.copy()
        self.placed, self.sequence, self.seen = placed.copy(), sequence.copy(), seen.copy()
        self.alive, self.has_vector = np.ones(len(chain), dtype=np.bool_), np.zeros(len(chain), dtype=np.bool_)

    def pack(self, keep: Mask) -> None:
        """Drop the rows that are False in `keep`; later rows move up."""
        for name in self.names:
            setattr(self, name, getattr(self, name)[: len(keep)][keep].copy())
