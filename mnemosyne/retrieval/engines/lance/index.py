"""Stores the rows of large scopes (sessions or worlds) in LanceDB, in one table per scope.

A row has the words of an entry and, if it was embedded, its vector. In this package only `files` imports neither lancedb nor
pyarrow. The other modules are imported when a scope needs them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import pyarrow.compute as pc
from anyio import to_thread

from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.engines.lance.arrow_rows import (
    SCHEMA,
    SHOWN,
    build_hits,
    chains_condition,
    filter_condition,
    literal,
    literals,
    rows_to_arrow,
    scope_from_table,
)
from mnemosyne.retrieval.engines.lance.connection import LanceConnection
from mnemosyne.retrieval.engines.lance.table import (
    fit_width,
    nearest_query,
    remove_damaged_rows,
    retry_conflicts,
    select_newer_rows,
    upsert,
    width_of,
)
from mnemosyne.retrieval.engines.lance.upkeep import TableUpkeep
from mnemosyne.retrieval.engines.large_scope import DurableIndex
from mnemosyne.retrieval.engines.rows import RowBatch, StoredScope
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.query import NO_HITS, Hits, IndexFilter


class LanceIndex(DurableIndex):
    """The tables of scopes that are too large for memory, with their graphs (indexes that find the nearest vectors).
    `LargeScope` searches these tables.

    Several processes may use one folder. A process writes only while it holds the folder's lock, and never overwrites newer
    rows of another process with older ones. If another process has dropped a scope, every method that uses the
    scope raises ScopeDroppedError, until `release`. Every other failure of LanceDB is raised as
    IndexUnavailableError.

    Args:
        tidy_writes: Number of writes after which `maintain` compacts a table.
    """

    def __init__(self, folder: str, *, tidy_writes: int = 32) -> None:
        self.folder = folder
        self._connection = LanceConnection(folder)
        self._upkeep = TableUpkeep(self._connection, tidy_writes=tidy_writes)
        self._watermarks: dict[tuple[str, Chain], int] = {}
        self._deepest: dict[str, dict[str, int]] = {}
        self._versions: dict[str, int] = {}

    async def write(self, scope: str, batch: RowBatch) -> None:
        """Write `batch`: its rows replace rows with the same id, and its removed ids are deleted. If another process has written
        newer rows than the watermarks of the batch, these rows stay.

        Raises:
            IndexUnavailableError: if the table cannot be written.
            ScopeDroppedError: if another process has dropped the scope.
        """
        async with self._connection.guard(scope):
            await self._connection.open(scope)
            async with self._connection.shared.hold_lock(scope):
                await retry_conflicts(partial(self._write, scope, batch))
        deepest = self._deepest.get(scope, {})
        for row in batch.rows:
            if row.branch_id in deepest:
                deepest[row.branch_id] = max(deepest[row.branch_id], row.depth or 0)
        for chain, sequence in batch.watermarks.items():
            if sequence:
                self._watermarks[scope, chain] = max(sequence, self._watermarks.get((scope, chain), 0))

    async def load(
        self, scope: str, *, vectors: bool = True, chains: Collection[Chain] | None = None
    ) -> StoredScope | None:
        """Return the rows of `scope` in the order of writing. Return None if nothing is stored.

        If `chains` is not None, only rows of these chains are returned. If not `vectors`, the rows have no vectors.

        Raises IndexUnavailableError if the table cannot be read.
        """
        async with self._connection.guard(scope):
            table = await self._connection.open(scope)
            if table is None:
                return None
            version = await table.version()
            names = (await table.schema()).names
            wanted = (
                table.query() if vectors else table.query().select([name for name in SCHEMA.names if name in names])
            )
            if condition := chains_condition(chains):
                wanted = wanted.where(condition)
            stored = await wanted.to_arrow()
            self._versions[scope] = version
            return await to_thread.run_sync(scope_from_table, stored)

    async def remove_damaged(
        self,
        scope: str,
        read: Mapping[Chain, int],
        *,
        vectors: bool = True,
        chains: Collection[Chain] | None = None,
    ) -> bool:
        """Delete the damaged rows that `load` with the same arguments leaves out; see `GraphStore.remove_damaged`.

        Raises:
            IndexUnavailableError: if the table cannot be written.
            ScopeDroppedError: if another process has dropped the scope.
        """
        is_removed = True

        async def work() -> None:
            nonlocal is_removed
            is_removed = await remove_damaged_rows(table, chains_condition(chains), read, vectors=vectors)

        async with self._connection.guard(scope):
            if (table := await self._connection.open(scope)) is not None:
                async with self._connection.shared.hold_lock(scope):
                    await retry_conflicts(work)
            return is_removed

    async def watermark(self, scope: str, chain: Chain) -> int:
        """Return the highest stored sequence of `chain` in the scope (0: none)."""
        if (scope, chain) not in self._watermarks:
            rows = await self._select(scope, f"chain = {literal(chain.value)}", ["sequence"])
            found = pc.max(rows["sequence"]).as_py() if rows is not None else None
            self._watermarks[scope, chain] = int(found or 0)
        return self._watermarks[scope, chain]

    async def count(self, scope: str) -> int:
        """Return the number of entries of the scope."""
        async with self._connection.guard(scope):
            table = await self._connection.open(scope)
            return 0 if table is None else int(await table.count_rows())

    async def encoder_of(self, scope: str) -> str:
        """Return the name of an embedder that has processed rows of the scope; empty if none has."""
        async with self._connection.guard(scope):
            table = await self._connection.open(scope)
            if table is None:
                return ""
            found = await table.query().where("embedder <> ''").select(["embedder"]).limit(1).to_arrow()
        return str(found["embedder"][0].as_py()) if len(found) else ""

    async def search_vector(self, vector: Vectors, where: IndexFilter, limit: int, *, model: str = "") -> Hits:
        """Return the best entries by cosine. The result is approximate (HNSW) once `maintain` has indexed 100,000
        rows or more.
        """
        if not await self._has_rows(where):
            return NO_HITS
        admitted = f"({await self._condition(where)}) AND embedder = {literal(model)}"
        async with self._connection.guard(where.scope):
            table = await self._connection.open(where.scope)
            if table is None or await width_of(table) != len(vector):
                return NO_HITS
            rows = await nearest_query(table, vector, limit).where(admitted).select([*SHOWN, "_distance"]).to_arrow()
        return build_hits(rows, 1.0 - rows["_distance"].to_numpy(zero_copy_only=False), where)

    async def nearest(self, scope: str, vector: Vectors, limit: int) -> tuple[tuple[str, float], ...]:
        """Return (id, cosine) of the nearest rows, best first, whatever their chain, branch and model.

        In a table whose rows are all in the graph this is ten times faster than a search with a filter.
        """
        async with self._connection.guard(scope):
            table = await self._connection.open(scope)
            if table is None or await width_of(table) != len(vector):
                return ()
            found = await nearest_query(table, vector, limit).select(["entry_id", "_distance"]).to_arrow()
        cosines = 1.0 - found["_distance"].to_numpy(zero_copy_only=False)
        return tuple(zip(found["entry_id"].to_pylist(), cosines.tolist(), strict=True))

    async def drop(self, scope: str) -> None:
        """Remove the table of a scope, whatever the state of its files. Other processes write to the scope only after
        they have read it again.

        Raises IndexUnavailableError if files cannot be removed.
        """
        async with self._connection.guard(scope), self._connection.shared.hold_lock():
            await self._connection.shared.leave_mark(scope)
            self._forget(scope)
            await self._connection.drop(scope)
        self._upkeep.forget(scope)

    def release(self, scope: str) -> None:
        """Forget the caches of a scope, so that it is read again."""
        self._connection.release(scope)
        self._forget(scope)

    def _forget(self, scope: str) -> None:
        self._deepest.pop(scope, None)
        self._versions.pop(scope, None)
        for chain in Chain:
            self._watermarks.pop((scope, chain), None)

    async def prepare(self, scope: str) -> None:
        """Build the graph of `scope` and the indexes for its filters. This takes long.

        Raises IndexUnavailableError if the table cannot be used.
        """
        await self._upkeep.prepare(scope)

    async def absorb(self, scope: str, other: str, *, graph: bool = True) -> None:
        """Write all rows of the table `other` into the table of `scope` and, if `graph`, rebuild the graph of `scope`. This
        takes long.

        If another write interrupts the building of the graph, the building is postponed, and until then the rows are
        scanned. Raises IndexUnavailableError if the tables cannot be used.
        """
        await self._upkeep.absorb(scope, other, graph=graph)

    async def finish(self, scope: str, *, rebuild: bool) -> None:
        """Build the indexes of the table of `scope`, and delete the files of all but its last version. Call this if the table
        will not be written any more. This takes long.

        Raises IndexUnavailableError if the table cannot be used.

        Args:
            rebuild: Whether rows were written since the graph was built.
        """
        await self._upkeep.finish(scope, rebuild=rebuild)

    async def maintain(self) -> None:
        """Compact the tables with many writes since the last time, and update their indexes.

        Writes and searches continue meanwhile. If a write interrupts the compaction, the compaction is postponed.
        """
        await self._upkeep.maintain()

    async def close(self) -> None:
        """Close all tables and the connection."""
        await self._connection.close()

    async def _write(self, scope: str, batch: RowBatch) -> None:
        ahead: dict[Chain, int] = {}
        table = await self._connection.open(scope, is_alone=True)
        if table is None:
            if not batch.rows:
                return
            table = await self._connection.create(scope)
        elif self._versions.get(scope) != await table.version():
            batch, ahead = await select_newer_rows(table, batch)
        if batch.removed:
            await table.delete(f"entry_id IN ({literals(batch.removed)})")
        if batch.rows:
            given = next((len(row.vector) for row in batch.rows if row.vector is not None), None)
            width = await fit_width(table, given)
            await upsert(table, await to_thread.run_sync(rows_to_arrow, batch.rows, width))
        if ahead:
            # The next batch may also have been made without what the other process has written.
            self._versions.pop(scope, None)
        else:
            self._versions[scope] = await table.version()
        self._upkeep.note_write(scope)

    async def _select(self, scope: str, filter_condition: str, columns: list[str]) -> Any:
        async with self._connection.guard(scope):
            table = await self._connection.open(scope)
            return None if table is None else await table.query().where(filter_condition).select(columns).to_arrow()

    async def _has_rows(self, where: IndexFilter) -> bool:
        """Return whether any of the chains has rows: a search whose filter admits none would scan all rows."""
        return any([await self.watermark(where.scope, chain) for chain in where.chains])

    async def _condition(self, where: IndexFilter) -> str:
        """Return the filter of a search; the depth of each branch is queried once and cached."""
        known = self._deepest.setdefault(where.scope, {})
        for span in where.lineage or ():
            if span.branch_id not in known:
                rows = await self._select(where.scope, f"branch_id = {literal(span.branch_id)}", ["depth"])
                known[span.branch_id] = (pc.max(rows["depth"]).as_py() or 0) if rows is not None else 0
        return filter_condition(where, known)
