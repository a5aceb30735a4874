"""Works on one LanceDB table: builds indexes, adds columns, writes rows, makes queries.

This module imports lancedb, so import this module only when a scope needs LanceDB. Errors of LanceDB pass through.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

# Its engine prints a warning on stderr for every read of an index's statistics unless the kind is named.
os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")

import pyarrow as pa
from anyio import to_thread
from lancedb.index import Bitmap, BTree, HnswSq

from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.engines.lance.arrow_rows import (
    VECTOR,
    graph_partitions,
    highest_sequences,
    literals,
    select_newer,
    widen_batch,
)
from mnemosyne.retrieval.engines.lance.sums import VECTOR_SUM, whole_rows
from mnemosyne.retrieval.engines.rows import RowBatch
from mnemosyne.schema.memory import Chain

_WANTED: dict[str, Any] = {
    "entry_id": BTree(),
    "chain": Bitmap(),
    "branch_id": Bitmap(),
    "embedder": Bitmap(),
}
"""Columns that get an index for filters, with the kind of index. (The graph of the vectors is built only for a large table.)"""
_AT_ONCE = 1_000
_TRIES = 5


async def index_columns(table: Any) -> None:
    """Build the missing indexes for filters. Another process may be building them as well."""

    async def make() -> None:
        known = {name for index in await table.list_indices() for name in index.columns}
        for name, config in _WANTED.items():
            if name not in known:
                await table.create_index(name, config=config)

    await retry_conflicts(make)


async def index_vectors(table: Any, *, force: bool = False) -> None:
    """Build the graph (index of the nearest vectors) of `table`, if the table is large enough for one.

    If not `force`, the graph is built only if there is none, or if most rows are not in it. If another write interrupts the
    building, the building is postponed, and until then the rows are scanned.
    """
    if await width_of(table) is None:
        return
    partitions = graph_partitions(int(await table.count_rows(f"{VECTOR} IS NOT NULL")))
    if partitions and (force or await _is_outgrown(table)):
        try:
            await table.create_index(VECTOR, config=HnswSq(distance_type="cosine", num_partitions=partitions))
        except Exception as error:
            if not is_conflict(error):
                raise


async def width_of(table: Any) -> int | None:
    """Return the number of dimensions of the table's vectors, or None if there is no column for vectors."""
    schema = await table.schema()
    return int(schema.field(VECTOR).type.list_size) if VECTOR in schema.names else None


async def fit_width(table: Any, wanted: int | None) -> int | None:
    """Give the vector column `wanted` dimensions (None: leave it unchanged) and return its number of dimensions.

    Vectors of another width, which another model made, are dropped.
    """
    width = await width_of(table)
    if wanted is None or wanted == width:
        return width
    if width is not None:
        # In this order, so that a process killed in between leaves no row that claims a vector it does not have.
        await table.update({"embedder": "", VECTOR_SUM: 0})
        await table.drop_columns([VECTOR])
    await table.add_columns(pa.field(VECTOR, pa.list_(pa.float32(), wanted)))
    return wanted


async def retry_conflicts(work: Callable[[], Awaitable[None]]) -> None:
    """Run the write `work`, and retry it if another write interrupted it. After five tries the error is raised."""
    for tries_left in reversed(range(_TRIES)):
        try:
            await work()
            break
        except Exception as error:
            if not tries_left or not is_conflict(error):
                raise


async def copy_batch(table: Any, batch: Any, width: int | None) -> None:
    """Write `batch`, which contains rows of another table, into `table`. `width` is the number of dimensions of the vectors in
    `batch`.
    """
    await fit_width(table, width)
    await upsert(table, widen_batch(batch, await width_of(table)))


async def remove_damaged_rows(table: Any, condition: str, read: Mapping[Chain, int], *, vectors: bool) -> bool:
    """Delete the damaged rows (rows with a wrong checksum) and return True. Only rows that match the filter `condition` ('': all
    rows) are checked.

    Return False, and delete nothing, if such a row has a higher sequence number than `read` states for its chain: another process
    has written it, and perhaps it has not added the damaged rows again. If `vectors`, the checksums of the vectors are checked,
    too. The caller must hold the lock of the folder.
    """
    names = [name for name in (await table.schema()).names if vectors or name != VECTOR]
    query = table.query().where(condition) if condition else table.query()
    rows = await query.with_row_id().select(names).to_arrow()
    whole = await to_thread.run_sync(whole_rows, rows)
    newest = await to_thread.run_sync(highest_sequences, rows.filter(pa.array(whole)))
    if any(sequence > read.get(chain, 0) for chain, sequence in newest.items()):
        return False
    await _delete_rows(table, rows["_rowid"].to_numpy()[~whole].tolist())
    return True


async def _delete_rows(table: Any, row_ids: Sequence[int]) -> None:
    for start in range(0, len(row_ids), _AT_ONCE):
        await table.delete(f"_rowid IN ({', '.join(map(str, row_ids[start : start + _AT_ONCE]))})")


async def select_newer_rows(table: Any, batch: RowBatch) -> tuple[RowBatch, dict[Chain, int]]:
    """Return (newer batch, ahead) for a table to which another process has written since `batch` was made.

    - newer batch: the part of `batch` that must still be written to the table.
    - ahead: chain -> highest sequence number in the table. Only chains are listed in which this number is higher than the
      watermark of `batch` (the highest number that the writer of `batch` has read).
    """
    newest = await to_thread.run_sync(highest_sequences, await table.query().select(["chain", "sequence"]).to_arrow())
    ids = [*(row.entry_id for row in batch.rows), *batch.removed]
    known = table.query().where(f"entry_id IN ({literals(ids)})")
    rows = await known.to_arrow()
    # A damaged row is none: whatever the batch has in its place is news.
    rows = rows.filter(pa.array(await to_thread.run_sync(whole_rows, rows)))
    ahead = {chain: newest[chain] for chain, read in batch.watermarks.items() if newest.get(chain, 0) > read}
    return await to_thread.run_sync(select_newer, batch, rows, ahead), ahead


async def upsert(table: Any, rows: Any) -> None:
    """Write `rows` into `table`. They replace rows with the same id."""
    merge = table.merge_insert("entry_id").when_matched_update_all().when_not_matched_insert_all()
    await merge.execute(rows, on_bad_vectors="null")


def nearest_query(table: Any, vector: Vectors, limit: int) -> Any:
    """Return the query for the nearest rows by cosine. The caller adds a filter and columns.

    Without `refine_factor`, LanceDB 0.40 returns twice the distance of a graph's hits, calculated from rounded vectors. With
    it, the distance is calculated from the exact vectors, so that these hits can be compared with hits from memory.
    """
    query = table.query().nearest_to(vector).column(VECTOR).distance_type("cosine")
    return query.ef(max(128, 2 * limit)).refine_factor(1).limit(limit)


def is_conflict(error: Exception) -> bool:
    """Return whether a write failed only because another write interrupted it, so that a retry can succeed."""
    return any(word in str(error).lower() for word in ("commit conflict", "concurrent", "conflicting"))


async def _is_outgrown(table: Any) -> bool:
    """Return whether there is no vector index, or one that covers less than half of the rows; searches scan the others."""
    for index in await table.list_indices():
        if VECTOR in index.columns:
            stats = await table.index_stats(index.name)
            return stats is None or bool(stats.num_unindexed_rows > stats.num_indexed_rows)
    return True
