"""The durable index: a LanceDB table a scope, words already cut into tokens, vectors where there are any.

The only file that imports lancedb (pyarrow is known to `lance_rows` too); it is imported when a configuration names it. A table a
scope, because document counts and mean lengths are then those of the scope, so scores equal those of the index in memory.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import anyio

# Its engine warns on stderr of every reading of an index's figures unless it is told which kind is wanted.
os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")

import lancedb
import pyarrow as pa
import pyarrow.compute as pc
from anyio import to_thread
from lancedb.index import FTS, Bitmap, BTree, HnswSq
from lancedb.query import BooleanQuery, MatchQuery, Occur

from mnemosyne.errors import IndexUnavailableError
from mnemosyne.index.lance_files import has_files, remove_files, table_name
from mnemosyne.index.lance_rows import (
    SCHEMA,
    SHOWN,
    VECTOR,
    WORDS,
    arrow,
    condition,
    graph_partitions,
    hits,
    in_order,
    literal,
    literals,
    stored_scope,
    summed,
    weight_classes,
)
from mnemosyne.index.lexical import term_weights
from mnemosyne.index.rows import IndexRow, RowBatch, StoredScope, row_batch
from mnemosyne.protocols import Vectors
from mnemosyne.query import Hit, IndexFilter
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.record import SequencedEntry

_TRIES = 5
_WANTED: dict[str, Any] = {
    "entry_id": BTree(),
    "chain": Bitmap(),
    "branch_id": Bitmap(),
    "embedder": Bitmap(),
    WORDS: FTS(
        base_tokenizer="whitespace",
        lower_case=False,
        stem=False,
        remove_stop_words=False,
        ascii_folding=False,
        with_position=False,
        max_token_length=None,
    ),
}
"""The indexes that searching by words and filters needs; vectors have theirs by size."""


class LanceIndex:
    """The `Index` of scopes too big for memory, and the place where smaller ones survive the process.

    Every failure of LanceDB leaves as IndexUnavailableError. `tidy_writes`: `settle` compacts a table after that many
    writes. `exact_rows`: up to so many every term's own weight counts. Scores are LanceDB's BM25 (k1 1.2, b 0.75), whose
    document counts follow deletions at the next tidying.
    """

    def __init__(self, folder: str, *, tidy_writes: int = 32, exact_rows: int = 100_000) -> None:
        self.folder, self._exact_rows = folder, exact_rows
        self._tidy_writes = tidy_writes
        self._connection: Any = None
        self._tables: dict[str, Any] = {}
        self._writes: defaultdict[str, int] = defaultdict(int)
        self._searched: set[str] = set()
        self._watermarks: dict[tuple[str, Chain], int] = {}
        self._deepest: dict[str, dict[str, int]] = {}
        self._writing, self._indexing, self._tidying = anyio.Lock(), anyio.Lock(), anyio.Lock()

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
        """Write rows in one batch, replacing those of the same id, and remove what the batch removes."""
        async with self._writing:
            for tries_left in reversed(range(_TRIES)):
                try:
                    await self._write(scope, batch)
                    break
                except Exception as error:
                    if not tries_left or not _met_another(error):
                        raise self._unavailable(scope, error) from error
        deepest = self._deepest.get(scope, {})
        for row in batch.rows:
            if row.branch_id in deepest:
                deepest[row.branch_id] = max(deepest[row.branch_id], row.depth or 0)
        for chain, sequence in batch.watermarks.items():
            self._watermarks[scope, chain] = max(sequence, self._watermarks.get((scope, chain), 0))

    async def load(self, scope: str, *, vectors: bool = True) -> StoredScope | None:
        """Read a whole scope back in the order of writing, unless told otherwise with vectors; None when nothing is stored."""
        try:
            table = await self._open(scope)
            if table is None:
                return None
            everything = table.query()
            stored = await (everything if vectors else everything.select(SCHEMA.names)).to_arrow()
            return await to_thread.run_sync(stored_scope, stored)
        except Exception as error:
            raise self._unavailable(scope, error) from error

    async def watermark(self, scope: str, chain: Chain) -> int:
        """Return the highest sequence stored for this chain of the scope (0 = none)."""
        if (scope, chain) not in self._watermarks:
            rows = await self._select(scope, f"chain = {literal(chain.value)}", ["sequence"])
            found = pc.max(rows["sequence"]).as_py() if rows is not None else None
            self._watermarks[scope, chain] = int(found or 0)
        return self._watermarks[scope, chain]

    async def count(self, scope: str) -> int:
        """Return how many entries the scope holds."""
        try:
            table = await self._open(scope)
            return 0 if table is None else int(await table.count_rows())
        except Exception as error:
            raise self._unavailable(scope, error) from error

    async def newest(self, scope: str, chain: Chain, limit: int) -> tuple[str, ...]:
        """Return the ids of the chain's entries written last, oldest first."""
        rows = await self._select(scope, f"chain = {literal(chain.value)}", ["entry_id", "sequence"])
        return () if rows is None else in_order(rows)[-limit:]

    async def unseen(self, scope: str, model: str, limit: int) -> tuple[str, ...]:
        """Return ids of entries that this model has not looked at, in the order of writing."""
        rows = await self._select(scope, f"embedder <> {literal(model)}", ["entry_id", "sequence"])
        return () if rows is None else in_order(rows)[:limit]

    async def search_text(self, text: str | Mapping[str, float], where: IndexFilter, limit: int) -> tuple[Hit, ...]:
        """Return the best by BM25; ties at the cut are broken by LanceDB, above it by entry id.

        Among more than `exact_rows` terms of like weight are searched together, with their mean weight.
        """
        if not await self._ever_held(where):
            return ()
        terms = term_weights(text) if isinstance(text, str) else text
        admitted = await self._condition(where)
        try:
            table = await self._open(where.scope)
            rows = 0 if table is None else int(await table.count_rows())
            classes = weight_classes(terms, exact=rows <= self._exact_rows)
            if not rows or not classes:
                return ()
            await self._index_words(where.scope, table)
            if rows <= self._exact_rows:
                found = [await _matching(table, _any_of(classes), admitted, limit)]
            else:
                # One query of several weights scores every row that holds a term; one weight skips those that cannot be among
                # the best, and is ten times as fast.
                deep = limit if len(classes) == 1 else 2 * limit
                found = [await _matching(table, _match(*each), admitted, deep) for each in classes.items()]
        except Exception as error:
            raise self._unavailable(where.scope, error) from error
        return summed([hits(each, each["_score"].to_numpy(), where) for each in found], limit)

    async def search_vector(
        self, vector: Vectors, where: IndexFilter, limit: int, *, model: str = ""
    ) -> tuple[Hit, ...]:
        """Return the best by cosine; approximate (HNSW) once `settle` has indexed 100,000 rows or more."""
        if not await self._ever_held(where):
            return ()
        admitted = f"({await self._condition(where)}) AND embedder = {literal(model)}"
        try:
            table = await self._open(where.scope)
            if table is None or await _width(table) != len(vector):
                return ()
            query = table.query().nearest_to(vector).column(VECTOR).distance_type("cosine").ef(max(128, 2 * limit))
            query = query.where(admitted).select([*SHOWN, "_distance"]).limit(limit)
            rows = await query.to_arrow()
        except Exception as error:
            raise self._unavailable(where.scope, error) from error
        return hits(rows, 1.0 - rows["_distance"].to_numpy(zero_copy_only=False), where)

    def faults(self) -> tuple[str, ...]:
        """Return nothing: what goes wrong here is raised."""
        return ()

    async def drop(self, scope: str) -> None:
        """Remove the table of a scope, whatever state its files are in."""
        async with self._writing:
            table = self._tables.pop(scope, None)
            if table is not None:
                table.close()
            try:
                await self._connect()
                await self._connection.drop_table(table_name(scope), ignore_missing=True)
            except Exception as error:
                if not await to_thread.run_sync(has_files, self.folder, scope):
                    raise self._unavailable(scope, error) from error
            try:
                await to_thread.run_sync(remove_files, self.folder, scope)
            except OSError as error:
                raise self._unavailable(scope, error) from error
            self._searched.discard(scope)
            self._writes.pop(scope, None)
            self._deepest.pop(scope, None)
            for chain in Chain:
                self._watermarks.pop((scope, chain), None)

    async def prepare(self, scope: str) -> None:
        """Make the indexes that searching a scope of this size needs, so that no search has to; takes long."""
        try:
            table = await self._open(scope)
            if table is not None and await table.count_rows():
                await self._index_words(scope, table)
                await self._index_vectors(table)
        except Exception as error:
            raise self._unavailable(scope, error) from error

    async def settle(self) -> None:
        """Compact tables that have had many writes, and bring the indexes of searched ones up to date.

        Writes and searches go on meanwhile. Where a write and the tidying meet, the tidying is left for another time.
        """
        async with self._tidying:
            for scope, writes in list(self._writes.items()):
                if writes < self._tidy_writes:
                    continue
                try:
                    await self._tidy(scope)
                except Exception as error:
                    if _met_another(error):
                        continue
                    raise self._unavailable(scope, error) from error
                self._writes[scope] -= writes

    async def close(self) -> None:
        """Release all handles."""
        for table in self._tables.values():
            table.close()
        self._tables.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _write(self, scope: str, batch: RowBatch) -> None:
        table = await self._open(scope)
        if table is None:
            if not batch.rows:
                return
            table = await self._connection.create_table(table_name(scope), schema=SCHEMA, exist_ok=True)
            self._tables[scope] = table
        if batch.removed:
            await table.delete(f"entry_id IN ({literals(batch.removed)})")
        if batch.rows:
            width = await self._fit_width(table, batch.rows)
            data = await to_thread.run_sync(arrow, batch.rows, width)
            upsert = table.merge_insert("entry_id").when_matched_update_all().when_not_matched_insert_all()
            await upsert.execute(data, on_bad_vectors="null")
        self._writes[scope] += 1

    async def _fit_width(self, table: Any, rows: Sequence[IndexRow]) -> int | None:
        """Make the vector column as wide as the batch's vectors; a column of another width belonged to another model."""
        width = await _width(table)
        wanted = next((len(row.vector) for row in rows if row.vector is not None), None)
        if wanted is None or wanted == width:
            return width
        if width is not None:
            await table.drop_columns([VECTOR])
            await table.update({"embedder": ""})
        await table.add_columns(pa.field(VECTOR, pa.list_(pa.float32(), wanted)))
        return wanted

    async def _open(self, scope: str) -> Any:
        if scope in self._tables:
            return self._tables[scope]
        await self._connect()
        try:
            self._tables[scope] = await self._connection.open_table(table_name(scope))
        except ValueError as error:
            if "was not found" not in str(error) or await to_thread.run_sync(has_files, self.folder, scope):
                raise
            return None
        return self._tables[scope]

    async def _connect(self) -> None:
        if self._connection is None:
            # Handles are snapshots; an interval of nothing makes each read see what other processes wrote.
            self._connection = await lancedb.connect_async(self.folder, read_consistency_interval=timedelta(0))

    async def _select(self, scope: str, condition: str, columns: list[str]) -> Any:
        try:
            table = await self._open(scope)
            return None if table is None else await table.query().where(condition).select(columns).to_arrow()
        except Exception as error:
            raise self._unavailable(scope, error) from error

    async def _ever_held(self, where: IndexFilter) -> bool:
        """Say whether any of the chains has rows: a search whose filter admits none walks all there are."""
        return any([await self.watermark(where.scope, chain) for chain in where.chains])

    async def _condition(self, where: IndexFilter) -> str:
        """Return the filter of a search; how deep each branch goes is asked once and kept."""
        known = self._deepest.setdefault(where.scope, {})
        for span in where.lineage or ():
            if span.branch_id not in known:
                rows = await self._select(where.scope, f"branch_id = {literal(span.branch_id)}", ["depth"])
                known[span.branch_id] = (pc.max(rows["depth"]).as_py() or 0) if rows is not None else 0
        return condition(where, known)

    async def _index_words(self, scope: str, table: Any) -> None:
        if scope in self._searched:
            return
        async with self._indexing:
            # Several chains of a scope are searched at once; the first of them makes the index for all.
            if scope in self._searched:
                return
            known = {name for index in await table.list_indices() for name in index.columns}
            for name, config in _WANTED.items():
                if name not in known:
                    await table.create_index(name, config=config)
            self._searched.add(scope)

    async def _index_vectors(self, table: Any) -> None:
        if await _width(table) is None:
            return
        partitions = graph_partitions(int(await table.count_rows(f"{VECTOR} IS NOT NULL")))
        if partitions and await _outgrown(table):
            async with self._indexing:
                await table.create_index(VECTOR, config=HnswSq(distance_type="cosine", num_partitions=partitions))

    async def _tidy(self, scope: str) -> None:
        table = await self._open(scope)
        if table is None:
            return
        if scope in self._searched:
            await self._index_vectors(table)
        await table.optimize(cleanup_older_than=timedelta(hours=1))

    def _unavailable(self, scope: str, error: Exception) -> IndexUnavailableError:
        self._tables.pop(scope, None)
        return IndexUnavailableError(self.folder, scope, " ".join(str(error).split())[:300] or type(error).__name__)


async def _outgrown(table: Any) -> bool:
    """Say whether there is no vector index, or one that knows less than half of the rows; searches scan the others."""
    for index in await table.list_indices():
        if VECTOR in index.columns:
            stats = await table.index_stats(index.name)
            return stats is None or bool(stats.num_unindexed_rows > stats.num_indexed_rows)
    return True


def _met_another(error: Exception) -> bool:
    """Say whether a write failed only because another one came between; tried again, it will do."""
    return any(word in str(error).lower() for word in ("commit conflict", "concurrent", "conflicting"))


async def _matching(table: Any, words: Any, admitted: str, limit: int) -> Any:
    query = table.query().nearest_to_text(words).where(admitted)
    return await query.select([*SHOWN, "_score"]).limit(limit).to_arrow()


def _match(weight: float, terms: Sequence[str]) -> Any:
    match: Any = MatchQuery
    return match(" ".join(terms), WORDS, boost=weight)


def _any_of(classes: Mapping[float, Sequence[str]]) -> Any:
    """Return the query that adds up the scores of all terms, each times its weight."""
    return BooleanQuery([(Occur.SHOULD, _match(*each)) for each in classes.items()])


async def _width(table: Any) -> int | None:
    schema = await table.schema()
    return int(schema.field(VECTOR).type.list_size) if VECTOR in schema.names else None
