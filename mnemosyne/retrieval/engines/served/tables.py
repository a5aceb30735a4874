"""Opens the table of a snapshot for searches, in memory or through its graph.

A snapshot is a published index of a world. A graph is an index on disk that finds the nearest vectors quickly. Rows whose
entries the store no longer has are hidden. LanceDB is imported only when it is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from importlib import import_module

import numpy as np
from anyio import to_thread

from mnemosyne.core.errors import IndexUnavailableError
from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.engines.large_scope import DurableIndex, GraphStore, LargeScope
from mnemosyne.retrieval.engines.rows import RowBatch, StoredScope
from mnemosyne.retrieval.engines.served.snapshot import ServedSnapshot
from mnemosyne.retrieval.engines.tables.table import ScopeTable
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.query import Hits, IndexFilter

_EXCLUDED = 1_000
"""Maximum number of hidden rows that the filter of a search excludes. If there are more, the search asks for more results."""


async def open_table(
    scope: str, snapshot: ServedSnapshot, *, memory_rows: int, delta_rows: int, held_rows: int
) -> ScopeTable | LargeScope:
    """Return the table by which `scope` is searched in `snapshot`.

    If the snapshot has at most `memory_rows` rows, all of them are read into memory. Of a larger one, only the words are.
    `LargeScope` explains `delta_rows` and `held_rows`.

    Raises:
        IndexUnavailableError: if the table cannot be read or has damaged rows.
        ScopeDroppedError: if the table was dropped.
    """
    module = await to_thread.run_sync(import_module, "mnemosyne.retrieval.engines.lance.index")
    reader: DurableIndex = module.LanceIndex(str(snapshot.folder))
    graph = SnapshotGraph(reader, snapshot.sequences)
    if await reader.count(scope) > memory_rows:
        large = LargeScope(scope, graph, delta_rows=delta_rows, held_rows=held_rows, is_fixed=True)
        await large.open()
        _check(scope, snapshot, large.lost)
        await large.begin_at(snapshot.stale, snapshot.watermarks)
        return large
    stored, table = await graph.load(scope), ScopeTable()
    _check(scope, snapshot, 0 if stored is None else stored.lost)
    await to_thread.run_sync(_fill, table, stored, snapshot)
    await reader.close()
    return table


def _renumber(stored: StoredScope, sequences: Mapping[str, int]) -> StoredScope:
    numbers = [sequences.get(name, 0) for name in stored.ids]
    return replace(stored, sequences=np.array(numbers, dtype=np.int64))


def _check(scope: str, snapshot: ServedSnapshot, lost: int) -> None:
    if lost:
        raise IndexUnavailableError(str(snapshot.folder), scope, f"{lost} of its rows are damaged")


def _fill(table: ScopeTable, stored: StoredScope | None, snapshot: ServedSnapshot) -> None:
    if stored is not None:
        table.fill(stored)
    table.put(RowBatch(rows=(), removed=snapshot.stale, watermarks={}))
    table.begin_at(snapshot.watermarks)


class SnapshotGraph:
    """The `GraphStore` of a snapshot. The snapshot's table is only read. Removed rows are hidden, and nothing is written.

    `sequences` has the same meaning as in `ServedSnapshot`.
    """

    def __init__(self, store: GraphStore, sequences: Mapping[str, int]) -> None:
        self._store, self._sequences = store, sequences
        self._hidden = set[str]()

    async def load(
        self, scope: str, *, vectors: bool = True, chains: Collection[Chain] | None = None
    ) -> StoredScope | None:
        """Return the rows of the snapshot's table, or None for any other table."""
        stored = await self._store.load(scope, vectors=vectors, chains=chains)
        if stored is None or not self._sequences:
            return stored
        return await to_thread.run_sync(_renumber, stored, self._sequences)

    async def remove_damaged(
        self,
        scope: str,
        read: Mapping[Chain, int],
        *,
        vectors: bool = True,
        chains: Collection[Chain] | None = None,
    ) -> bool:
        """Do nothing and return True. The damaged rows were not loaded, and rows that were added in their place are in memory."""
        return True

    async def write(self, scope: str, batch: RowBatch) -> None:
        """Hide the rows that `batch` removes. The rows that it adds are already in memory."""
        self._hidden.update(batch.removed)

    async def nearest(self, scope: str, vector: Vectors, limit: int) -> tuple[tuple[str, float], ...]:
        """Return (id, cosine) of the nearest rows, best first. Hidden rows are among them."""
        return await self._store.nearest(scope, vector, limit)

    async def search_vector(self, vector: Vectors, where: IndexFilter, limit: int, *, model: str = "") -> Hits:
        """Return the best rows by cosine among those that are not hidden and that the filter `where` admits."""
        wanted = limit
        if len(self._hidden) <= _EXCLUDED:
            where = replace(where, exclude=where.exclude | self._hidden)
        else:
            wanted += len(self._hidden)
        found = await self._store.search_vector(vector, where, wanted, model=model)
        rows = [row for row in found.rows() if row[0] not in self._hidden][:limit]
        numbers = self._sequences
        return Hits.from_rows([(name, score, at, numbers.get(name, number)) for name, score, at, number in rows])

    async def absorb(self, scope: str, other: str) -> None:
        """Do nothing, because the next snapshot will have the new rows."""

    async def drop(self, scope: str) -> None:
        """Do nothing, because a snapshot is not changed."""
