"""Searches a scope that is too large for memory. Its words, new rows and small chains are in memory. Most of its vectors are
on disk, in one graph.

A graph is an index that finds the nearest vectors quickly, in 2 to 5 ms. With a filter, or if the table has rows outside of the
graph, a search takes longer, because all rows are read first (27 ms for a million rows). So the graph's table is left unchanged,
and filters are applied to the results. New rows are collected in a second table, the delta, which is also in memory. When there
are enough new rows, a new graph is built. This module must not import an engine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol

import anyio
from anyio import to_thread

from mnemosyne.protocols import Index, Vectors
from mnemosyne.retrieval.engines.rows import (
    NO_ROWS,
    RowBatch,
    StoredScope,
    batch_of,
    merge_batches,
    merge_watermarks,
    row_batch,
)
from mnemosyne.retrieval.engines.tables.table import ScopeTable
from mnemosyne.retrieval.text.lexical import term_weights
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.query import NO_HITS, Hits, IndexFilter
from mnemosyne.schema.record import SequencedEntry
from mnemosyne.values import dataclass

_DELTA_SHARE = 8
_LEAST_DELTA = 10_000
_WIDE = 0.25
_SPARE = 1.25


class GraphStore(Protocol):
    """Stores the tables of large scopes. Every method may raise IndexUnavailableError or ScopeDroppedError."""

    async def load(
        self, scope: str, *, vectors: bool = True, chains: Collection[Chain] | None = None
    ) -> StoredScope | None:
        """Return the rows of a stored table in the order of writing, or only those of `chains`. Return None if
        nothing is stored.
        """
        ...

    async def remove_damaged(
        self,
        scope: str,
        read: Mapping[Chain, int],
        *,
        vectors: bool = True,
        chains: Collection[Chain] | None = None,
    ) -> bool:
        """Delete the damaged rows that `load` with the same arguments leaves out, and return True.

        Return False, and delete nothing, if another process has written above the watermarks in `read`.
        """
        ...

    async def write(self, scope: str, batch: RowBatch) -> None:
        """Write a batch: its rows replace those with the same id, and its removed ids are deleted."""
        ...

    async def nearest(self, scope: str, vector: Vectors, limit: int) -> tuple[tuple[str, float], ...]:
        """Return (id, cosine) of the nearest rows, best first, whatever their chain, branch and model."""
        ...

    async def search_vector(self, vector: Vectors, where: IndexFilter, limit: int, *, model: str = "") -> Hits:
        """Return the best rows by cosine among those that the filter `where` admits."""
        ...

    async def absorb(self, scope: str, other: str) -> None:
        """Write all rows of the table `other` into the table of `scope` and rebuild its graph. It takes long."""
        ...

    async def drop(self, scope: str) -> None:
        """Remove the table of a scope."""
        ...


class DurableIndex(GraphStore, Protocol):
    """Stores the tables of large scopes so that they outlive the process.

    Every method may raise IndexUnavailableError. If another process has dropped a scope that this one had read,
    methods for the scope raise ScopeDroppedError until `release`.
    """

    async def count(self, scope: str) -> int:
        """Return the number of rows of the table."""
        ...

    def release(self, scope: str) -> None:
        """Forget the caches of a scope, so that it is read again."""
        ...

    async def prepare(self, scope: str) -> None:
        """Build the graph of a scope and the indexes of its filters. It takes long and never blocks a search or a write."""
        ...

    async def maintain(self) -> None:
        """Compact the tables that have had many writes."""
        ...

    async def close(self) -> None:
        """Close all tables."""
        ...


@dataclass(slots=True)
class _Delta:
    """Rows that are not in the graph yet: in memory, and in the table `name` except those `held` (not written yet)."""

    name: str
    rows: ScopeTable = field(default_factory=ScopeTable)
    held: RowBatch = NO_ROWS


@dataclass(frozen=True, kw_only=True, slots=True)
class _Loss:
    """The number of damaged rows that a table had when it was loaded, and with which arguments it was."""

    name: str
    rows: int
    vectors: bool = True
    chains: frozenset[Chain] | None = None


class LargeScope(Index):
    """An `Index` of one large scope; call `open` first.

    `delta_rows` is the maximum number of new rows, and of rows of small chains, that are in memory with their vectors.
    `held_rows` is the number of new rows that are collected before they are written. Chains with few entries are
    searched only in memory.

    If the deltas have more than an eighth of all rows and more than `least_delta_rows`, `maintain` builds a new
    graph. If `is_fixed`, no graph is ever built: the table is a published snapshot, and all new rows stay in memory.
    If several tables have a row with the same id, the row written last counts.
    """

    def __init__(
        self,
        scope: str,
        store: GraphStore,
        *,
        delta_rows: int,
        held_rows: int,
        least_delta_rows: int = _LEAST_DELTA,
        is_fixed: bool = False,
    ) -> None:
        self._scope, self._store, self._least_delta_rows = scope, store, least_delta_rows
        self._is_fixed = is_fixed
        self._delta_rows, self._held_rows = delta_rows, held_rows
        self._places, self._rare = ScopeTable(), ScopeTable()
        self._far: frozenset[Chain] = frozenset()
        self._deltas = [_Delta(delta_names(scope)[0])]
        self._removed: list[str] | None = None
        self._lost: list[_Loss] = []
        self._writing, self._maintaining = anyio.Lock(), anyio.Lock()

    @property
    def lost(self) -> int:
        """Number of rows that `open` left out because they are damaged."""
        return sum(each.rows for each in self._lost)

    async def open(self) -> None:
        """Load the parts that are searched in memory.

        Raises:
            IndexUnavailableError: if the tables cannot be read.
            ScopeDroppedError: if another process has dropped the scope meanwhile.
        """
        if (stored := await self._store.load(self._scope, vectors=False)) is not None:
            self._lost.append(_Loss(name=self._scope, rows=stored.lost, vectors=False))
            await to_thread.run_sync(self._places.fill, stored)
        rare, lost = await self._split_chains()
        if lost:
            # Their words are whole, but an entry is made again as a whole.
            self._lost.append(_Loss(name=self._scope, rows=lost, chains=rare))
            ids = {name for chain in rare for name in self._places.newest_ids(chain, self._places.count())}
            gone = tuple(name for name in ids if not self._rare.holds(name))
            await to_thread.run_sync(self._places.put, RowBatch(rows=(), removed=gone, watermarks={}))
        found: list[tuple[int, _Delta, RowBatch]] = []
        for name in delta_names(self._scope):
            stored = await self._store.load(name)
            if stored is not None:
                self._lost.append(_Loss(name=name, rows=stored.lost))
            if stored is not None and stored.ids:
                batch = await to_thread.run_sync(batch_of, stored)
                found.append((int(stored.sequences.max()), _Delta(name), batch))
        # The names are used alternately, so that either may be the older one.
        found.sort(key=lambda each: each[0])
        for _, delta, batch in found:
            await to_thread.run_sync(delta.rows.put, batch)
            await to_thread.run_sync(self._places.put, _without_vectors(batch))
        self._deltas = [delta for _, delta, _ in found] or self._deltas

    async def begin_at(self, removed: Sequence[str], watermarks: Mapping[Chain, int]) -> None:
        """Hide the rows of a snapshot whose ids are in `removed`, and set the watermarks of the rows to `watermarks`, the
        watermarks of the store.
        """
        await self.write(self._scope, RowBatch(rows=(), removed=tuple(removed), watermarks={}))
        self._places.begin_at(watermarks)

    async def add(
        self,
        scope: str,
        entries: Sequence[SequencedEntry],
        vectors: Vectors | None,
        *,
        keys: Sequence[str] | None = None,
        model: str = "",
    ) -> None:
        """Add, replace or remove entries; see `Index.add`."""
        await self.write(scope, await to_thread.run_sync(row_batch, entries, vectors, keys, model))

    async def write(self, scope: str, batch: RowBatch) -> None:
        """Add, replace and remove the rows of a batch."""
        async with self._writing:
            delta = self._deltas[-1]
            if batch.removed:
                await self._remove(batch.removed)
            rows = replace(batch, removed=())
            is_full = delta.rows.count() + len(rows.rows) > self._delta_rows
            if is_full and self._removed is None and not self._is_fixed:
                # An import with more rows than memory allows. They are scanned on disk until there is a new graph.
                await self._remove([row.entry_id for row in rows.rows], (), self._deltas)
                await self._store.write(self._scope, self._with_watermarks(rows))
                rare = tuple(row for row in rows.rows if row.chain not in self._far)
                await to_thread.run_sync(self._rare.put, replace(rows, rows=rare))
            else:
                await to_thread.run_sync(delta.rows.put, rows)
                delta.held = merge_batches(delta.held, rows)
                if len(delta.held.rows) >= self._held_rows:
                    await self._write_held(delta)
            await to_thread.run_sync(self._places.put, _without_vectors(batch))

    async def watermark(self, scope: str, chain: Chain) -> int:
        """Return the highest sequence that was seen for `chain` (0: none)."""
        return self._places.watermark(chain)

    async def count(self, scope: str) -> int:
        """Return the number of entries."""
        return self._places.count()

    async def newest_ids(self, scope: str, chain: Chain, limit: int) -> tuple[str, ...]:
        """Return the ids of the `limit` entries of `chain` that were written last, oldest first."""
        return await to_thread.run_sync(self._places.newest_ids, chain, limit)

    async def unembedded_ids(self, scope: str, model: str, limit: int) -> tuple[str, ...]:
        """Return at most `limit` ids of entries that the embedder `model` has not processed, in the order of writing."""
        return await to_thread.run_sync(self._places.unembedded_ids, model, limit)

    async def encoder_of(self, scope: str) -> str:
        """Return the name of the embedder that made the entries' vectors; empty if they have none."""
        return self._places.model

    @property
    def words(self) -> ScopeTable:
        """Table with the words of all entries."""
        return self._places

    async def search_text(self, text: str | Mapping[str, float], where: IndexFilter, limit: int) -> Hits:
        """Return the best entries by BM25. Word statistics count only the entries that the filter admits."""
        if self._places.is_unused(where.chains):
            return NO_HITS
        terms = term_weights(text) if isinstance(text, str) else text
        return await to_thread.run_sync(self._places.search_text, terms, where, limit)

    async def search_vector(self, vector: Vectors, where: IndexFilter, limit: int, *, model: str = "") -> Hits:
        """Return the best entries by cosine. Rows in memory are searched as in `MemoryIndex`, the others through the graph."""
        found: list[tuple[str, float, int, int]] = []
        newer: list[ScopeTable] = []
        for rows in (*(delta.rows for delta in reversed(self._deltas)), self._rare):
            if not rows.is_unused(where.chains):
                hits = await to_thread.run_sync(rows.search_vector, vector, model, where, limit)
                found.extend(_exclude_held(newer, hits))
            newer.append(rows)
        if chains := self._far & where.chains:
            far = await self._search_graph(vector, replace(where, chains=chains), limit, model)
            found.extend(_exclude_held(newer, far))
        return Hits.from_rows(sorted(found, key=lambda row: (-row[1], row[0]))[:limit])

    def faults(self) -> tuple[str, ...]:
        """Return nothing, because faults are raised."""
        return ()

    async def drop(self, scope: str) -> None:
        """Remove the tables of the scope. This object must not be used afterwards."""
        for name in (self._scope, *delta_names(self._scope)):
            await self._store.drop(name)

    async def remove_lost(self, scope: str) -> bool:
        """Delete the damaged rows, after their entries were added again. Return True if this was done.

        Return False if another process has written meanwhile, so that the scope must be read again.

        Raises:
            IndexUnavailableError: if the tables cannot be read or written.
            ScopeDroppedError: if another process has dropped the scope.
        """
        await self.flush()
        read = {chain: self._places.watermark(chain) for chain in Chain}
        for each in [each for each in self._lost if each.rows]:
            if not await self._store.remove_damaged(each.name, read, vectors=each.vectors, chains=each.chains):
                return False
        self._lost.clear()
        return True

    async def maintain(self) -> None:
        """Write pending rows. If many rows are not in the graph yet, also rebuild the graph with the older ones of them."""
        async with self._maintaining:
            await self.flush()
            waiting = sum(each.rows.count() for each in self._deltas)
            is_due = waiting > max(self._places.count() // _DELTA_SHARE, self._least_delta_rows)
            if is_due and not self._is_fixed:
                await self._merge_oldest_delta()

    async def flush(self) -> None:
        """Write pending rows."""
        async with self._writing:
            await self._write_held(self._deltas[-1])

    async def close(self) -> None:
        """Write pending rows. The caller closes the store."""
        await self.flush()

    async def _search_graph(self, vector: Vectors, where: IndexFilter, limit: int, model: str) -> Hits:
        share = await to_thread.run_sync(self._places.share, where)
        if share >= _WIDE:
            wanted = int(_SPARE * limit / share) + min(len(where.exclude), limit)
            nearest = await self._store.nearest(self._scope, vector, wanted)
            hits = await to_thread.run_sync(self._places.filter_hits, nearest, where, model)
            if 2 * len(hits) > limit:
                return hits
        return await self._store.search_vector(vector, where, limit, model=model)

    async def _merge_oldest_delta(self) -> None:
        """Merge the older delta into the graph's table and rebuild the graph; searches and writes continue meanwhile."""
        async with self._writing:
            old = self._deltas[0]
            await self._write_held(old)
            if len(self._deltas) == 1:
                other = next(name for name in delta_names(self._scope) if name != old.name)
                self._deltas = [old, _Delta(other)]
            self._removed = []
        try:
            await self._store.absorb(self._scope, old.name)
            async with self._writing:
                # Rows that were removed meanwhile may have been copied before.
                removed, self._removed = self._removed, None
                await self._remove(removed, (self._scope,), ())
                await self._split_chains()
                self._deltas = self._deltas[1:]
        finally:
            self._removed = None
        await self._store.drop(old.name)

    async def _split_chains(self) -> tuple[frozenset[Chain], int]:
        """Decide which chains are searched in memory, and read their vectors; return them, and how many rows are damaged."""
        rare, rows, lost = set[Chain](), 0, 0
        for chain, count in sorted(self._places.chain_counts().items(), key=lambda item: item[1]):
            rows += count
            if rows > self._delta_rows:
                break
            rare.add(chain)
        table = ScopeTable()
        if rare and (stored := await self._store.load(self._scope, chains=rare)) is not None:
            await to_thread.run_sync(table.fill, stored)
            lost = stored.lost
        self._rare, self._far = table, frozenset(Chain) - rare
        return frozenset(rare), lost

    async def _remove(
        self, ids: Sequence[str], tables: Sequence[str] | None = None, deltas: Sequence[_Delta] | None = None
    ) -> None:
        """Remove entries from tables on disk (the graph's and the deltas') and from memory."""
        if not ids:
            return
        gone = RowBatch(rows=(), removed=tuple(ids), watermarks={})
        if self._removed is not None:
            self._removed.extend(ids)
        among = self._deltas if deltas is None else deltas
        for each in among:
            each.held = merge_batches(each.held, gone)
            await self._write_held(each)
            await to_thread.run_sync(each.rows.put, gone)
        await to_thread.run_sync(self._rare.put, gone)
        # Another process may have written them to a table that is not one of these deltas.
        others = [name for name in delta_names(self._scope) if all(name != each.name for each in among)]
        for name in (self._scope, *others) if tables is None else tables:
            await self._store.write(name, self._with_watermarks(gone))

    async def _write_held(self, delta: _Delta) -> None:
        held, delta.held = delta.held, NO_ROWS
        if held.rows or held.removed:
            await self._store.write(delta.name, self._with_watermarks(held))

    def _with_watermarks(self, batch: RowBatch) -> RowBatch:
        """Return a batch with the current watermark of each chain."""
        read = {chain: self._places.watermark(chain) for chain in Chain}
        return replace(batch, watermarks=merge_watermarks(read, batch.watermarks))


def delta_names(scope: str) -> tuple[str, str]:
    """Return the names (first, second) of the two delta tables of `scope`. New rows are written to one of them until a new graph
    is built, then to the other. No scope has such a name.
    """
    return f"young-1:{scope}", f"young-2:{scope}"


def table_names(scope: str) -> tuple[str, ...]:
    """Return the names of all tables that LanceDB may have for a scope: its main table and its two deltas."""
    return scope, *delta_names(scope)


def owner_of(name: str) -> str:
    """Return the scope to which the table `name`, a main table or a delta, belongs."""
    return name.partition(":")[2] if name.startswith(("young-1:", "young-2:")) else name


async def adopt_tables(store: GraphStore, scope: str, staged: str) -> None:
    """Write all rows of the scope `staged` into `scope`, then remove the tables of `staged` and the deltas of
    `scope`, which have older rows.
    """
    for name in (staged, *delta_names(staged)):
        await store.absorb(scope, name)
    for name in (*delta_names(scope), staged, *delta_names(staged)):
        await store.drop(name)


def _without_vectors(batch: RowBatch) -> RowBatch:
    return replace(batch, rows=tuple(replace(row, vector=None) for row in batch.rows))


def _exclude_held(tables: Sequence[ScopeTable], hits: Hits) -> list[tuple[str, float, int, int]]:
    return [row for row in hits.rows() if not any(table.holds(row[0]) for table in tables)]
