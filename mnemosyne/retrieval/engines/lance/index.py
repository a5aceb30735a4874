"""Durable index: one LanceDB table per scope, with words as tokens, and vectors if there are any.

Of this package only `files` imports neither lancedb nor pyarrow; the others are imported when a configuration names
them. There is one table per scope, because document counts and mean lengths are then the scope's, so scores equal those
of the index in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
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
    ids_in_order,
    literal,
    literals,
    rows_to_arrow,
    scope_from_table,
    sum_scores,
    weight_classes,
)
from mnemosyne.retrieval.engines.lance.connection import LanceConnection
from mnemosyne.retrieval.engines.lance.table import (
    fit_width,
    nearest_query,
    remove_damaged_rows,
    retry_conflicts,
    search_weight_classes,
    select_newer_rows,
    upsert,
    width_of,
)
from mnemosyne.retrieval.engines.lance.upkeep import TableUpkeep
from mnemosyne.retrieval.engines.large_scope import DurableIndex
from mnemosyne.retrieval.engines.rows import RowBatch, StoredScope, row_batch
from mnemosyne.retrieval.text.lexical import term_weights
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.query import NO_HITS, Hits, IndexFilter
from mnemosyne.schema.record import SequencedEntry


class LanceIndex(DurableIndex):
    """The `Index` of scopes too large for memory, and the durable copy of smaller ones.

    Scores are LanceDB's BM25 (k1 1.2, b 0.75), whose document counts are corrected for deletions at the next
    compaction. Several processes may use one folder: each writes while it holds the folder's lock, and never overwrites
    newer rows of another with older ones. Once another process has dropped a scope, every method that uses it raises
    ScopeDroppedError, until `release`. Every other failure of LanceDB is raised as IndexUnavailableError.

    Args:
        tidy_writes: Number of writes after which `maintain` compacts a table.
        exact_rows: Maximum number of rows for which each term is searched with its own weight.
    """

    def __init__(self, folder: str, *, tidy_writes: int = 32, exact_rows: int = 100_000) -> None:
        self.folder, self._exact_rows = folder, exact_rows
        self._connection = LanceConnection(folder)
        self._upkeep = TableUpkeep(self._connection, tidy_writes=tidy_writes)
        self._watermarks: dict[tuple[str, Chain], int] = {}
        self._deepest: dict[str, dict[str, int]] = {}
        self._versions: dict[str, int] = {}

    async def add(
        self,
        scope: str,
        entries: Sequence[SequencedEntry],
        vectors: Vectors | None,
        *,
        keys: Sequence[str] | None = None,
        model: str = "",
    ) -> None:
        """Add, replace or remove entries; see `Index.add` and `append`."""
        await self.append(scope, await to_thread.run_sync(row_batch, entries, vectors, keys, model))

    async def append(self, scope: str, batch: RowBatch) -> None:
        """Write a batch of the rows after the watermarks that this index has returned.

        If another process has written to a chain since, the batch's rows of it are skipped, except for missing vectors,
        and `watermark` returns the table's own: the caller reads on from there. IndexUnavailableError,
        ScopeDroppedError.
        """
        asked = {chain: self._watermarks.get((scope, chain), reached) for chain, reached in batch.watermarks.items()}
        known = {chain: self._watermarks[scope, chain] for chain in Chain if (scope, chain) in self._watermarks}
        ahead = await self._put(scope, batch, known | asked)
        for chain, reached in batch.watermarks.items():
            # What is written again below the watermark says nothing about what follows it.
            if reached > asked[chain] or (scope, chain) not in self._watermarks:
                self._watermarks[scope, chain] = ahead.get(chain, reached)

    async def write(self, scope: str, batch: RowBatch) -> None:
        """Write a batch: its rows replace those with the same id, and its removed ids are deleted, except where another
        process has read further than the batch's watermarks. IndexUnavailableError, ScopeDroppedError.
        """
        await self._put(scope, batch, batch.watermarks)
        for chain, sequence in batch.watermarks.items():
            if sequence:
                self._watermarks[scope, chain] = max(sequence, self._watermarks.get((scope, chain), 0))

    async def _put(self, scope: str, batch: RowBatch, read: Mapping[Chain, int]) -> dict[Chain, int]:
        """Write the news of a batch; return the table's watermarks of the chains in which it is ahead of `read`."""
        ahead: dict[Chain, int] = {}

        async def work() -> None:
            nonlocal ahead
            ahead = await self._write(scope, batch, read)

        async with self._connection.guard(scope):
            await self._connection.open(scope)
            async with self._connection.shared.hold_lock(scope):
                await retry_conflicts(work)
        deepest = self._deepest.get(scope, {})
        for row in batch.rows:
            if row.branch_id in deepest:
                deepest[row.branch_id] = max(deepest[row.branch_id], row.depth or 0)
        return ahead

    async def load(
        self, scope: str, *, vectors: bool = True, chains: Collection[Chain] | None = None
    ) -> StoredScope | None:
        """Return a stored scope in the order of writing, all of it or some chains; None when nothing is stored.
        IndexUnavailableError.
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
        IndexUnavailableError, ScopeDroppedError.
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
        """Return the highest sequence stored for this chain of the scope (0 = none)."""
        if (scope, chain) not in self._watermarks:
            rows = await self._select(scope, f"chain = {literal(chain.value)}", ["sequence"])
            found = pc.max(rows["sequence"]).as_py() if rows is not None else None
            self._watermarks[scope, chain] = int(found or 0)
        return self._watermarks[scope, chain]

    async def count(self, scope: str) -> int:
        """Return how many entries the scope holds."""
        async with self._connection.guard(scope):
            table = await self._connection.open(scope)
            return 0 if table is None else int(await table.count_rows())

    async def newest_ids(self, scope: str, chain: Chain, limit: int) -> tuple[str, ...]:
        """Return the ids of the `limit` entries of the chain that were written last, oldest first, without entries that
        another process has written above the watermark.
        """
        mark = await self.watermark(scope, chain)
        wanted = f"chain = {literal(chain.value)} AND sequence <= {mark}"
        rows = await self._select(scope, wanted, ["entry_id", "sequence"])
        return () if rows is None else ids_in_order(rows)[-limit:]

    async def unembedded_ids(self, scope: str, model: str, limit: int) -> tuple[str, ...]:
        """Return at most `limit` ids of entries that this model has not processed, in the order of writing."""
        rows = await self._select(scope, f"embedder <> {literal(model)}", ["entry_id", "sequence"])
        return () if rows is None else ids_in_order(rows)[:limit]

    async def encoder_of(self, scope: str) -> str:
        """Return the name of an embedder whose vectors the scope has; empty if it has none."""
        async with self._connection.guard(scope):
            table = await self._connection.open(scope)
            if table is None:
                return ""
            found = await table.query().where("embedder <> ''").select(["embedder"]).limit(1).to_arrow()
        return str(found["embedder"][0].as_py()) if len(found) else ""

    async def search_text(self, text: str | Mapping[str, float], where: IndexFilter, limit: int) -> Hits:
        """Return the best by BM25; ties at the cut are broken by LanceDB, above it by entry id.

        In a table of more than `exact_rows` rows, terms of similar weight are searched together, with their mean
        weight.
        """
        if not await self._has_rows(where):
            return NO_HITS
        terms = term_weights(text) if isinstance(text, str) else text
        admitted = await self._condition(where)
        async with self._connection.guard(where.scope):
            table = await self._connection.open(where.scope)
            rows = 0 if table is None else int(await table.count_rows())
            classes = weight_classes(terms, exact=rows <= self._exact_rows)
            if not rows or not classes:
                return NO_HITS
            await self._upkeep.index_words(where.scope, table)
            found = await search_weight_classes(table, classes, admitted, limit, exact=rows <= self._exact_rows)
        return sum_scores([build_hits(each, each["_score"].to_numpy(), where) for each in found], limit)

    async def search_vector(self, vector: Vectors, where: IndexFilter, limit: int, *, model: str = "") -> Hits:
        """Return the best by cosine; approximate (HNSW) once `maintain` has indexed 100,000 rows or more."""
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
        """Return ids and cosines of the nearest rows of every chain, branch and model, best first.

        In a table whose rows are all in the graph this is ten times faster than a search with a filter.
        """
        async with self._connection.guard(scope):
            table = await self._connection.open(scope)
            if table is None or await width_of(table) != len(vector):
                return ()
            found = await nearest_query(table, vector, limit).select(["entry_id", "_distance"]).to_arrow()
        cosines = 1.0 - found["_distance"].to_numpy(zero_copy_only=False)
        return tuple(zip(found["entry_id"].to_pylist(), cosines.tolist(), strict=True))

    def faults(self) -> tuple[str, ...]:
        """Return nothing: faults are raised."""
        return ()

    async def drop(self, scope: str) -> None:
        """Remove the table of a scope, whatever the state of its files; other processes write to the scope only after
        they have read it again. IndexUnavailableError if files cannot be removed.
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
        self._upkeep.release(scope)
        self._deepest.pop(scope, None)
        self._versions.pop(scope, None)
        for chain in Chain:
            self._watermarks.pop((scope, chain), None)

    async def prepare(self, scope: str, *, words: bool = True) -> None:
        """Build the indexes that searching a scope of this size needs, so that no search has to; takes long.
        IndexUnavailableError.

        `words`: include the index for searching by words.
        """
        await self._upkeep.prepare(scope, words=words)

    async def absorb(self, scope: str, other: str, *, graph: bool = True) -> None:
        """Write all rows of another table into one and, with `graph`, rebuild its graph; takes long. IndexUnavailableError.

        If another write interrupts the building of the graph, it is postponed: until then the rows are scanned.
        """
        await self._upkeep.absorb(scope, other, graph=graph)

    async def finish(self, scope: str, *, words: bool, rebuild: bool) -> None:
        """Give a table that is not written any more its indexes, and delete the files of all but its last version;
        takes long. IndexUnavailableError.

        Args:
            words: Include the index for searching by words.
            rebuild: Rows were written since the graph was built.
        """
        await self._upkeep.finish(scope, words=words, rebuild=rebuild)

    async def maintain(self) -> None:
        """Compact tables with many writes since the last time, and update the indexes of tables that are searched.

        Writes and searches continue meanwhile. If a write interrupts the compaction, it is postponed.
        """
        await self._upkeep.maintain()

    async def close(self) -> None:
        """Close all tables and the connection."""
        await self._connection.close()

    async def _write(self, scope: str, batch: RowBatch, read: Mapping[Chain, int]) -> dict[Chain, int]:
        ahead: dict[Chain, int] = {}
        table = await self._connection.open(scope, is_alone=True)
        if table is None:
            if not batch.rows:
                return ahead
            table = await self._connection.create(scope)
        elif self._versions.get(scope) != await table.version():
            batch, ahead = await select_newer_rows(table, replace(batch, watermarks=dict(read)))
        await self._upkeep.declare(scope, table)
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
        return ahead

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
