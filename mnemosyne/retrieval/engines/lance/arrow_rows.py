"""Converts index rows to and from LanceDB: filters, columns and hits.

This module imports pyarrow, which is heavy, so import this module only when a scope needs LanceDB.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.engines.lance.sums import SUM_FIELDS, VECTOR_SUM, vector_sums, whole_rows, with_sums
from mnemosyne.retrieval.engines.rows import IndexRow, RowBatch, StoredScope
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.query import Hits, IndexFilter

WORDS = "tokens"
VECTOR = "vector"
SHOWN = ("entry_id", "branch_id", "depth", "sequence")
KEY_MARK = "lance-schema:unenforced-primary-key"
"""The metadata that declares a column the primary key of its table. Without it, processes that upsert an id at the
same moment each insert a row for this id, and LanceDB does not report it.
"""
SCHEMA = pa.schema(
    [
        pa.field("entry_id", pa.string(), nullable=False, metadata={KEY_MARK: "true"}),
        pa.field("chain", pa.string(), nullable=False),
        pa.field("branch_id", pa.string()),
        pa.field("depth", pa.int32()),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field(WORDS, pa.string(), nullable=False),
        pa.field("embedder", pa.string(), nullable=False),
        *SUM_FIELDS,
    ]
)
_GRAPH_ROWS = 100_000
_PARTITION_ROWS = 1_000_000
_CHAINS = {chain.value: place for place, chain in enumerate(Chain)}


def literal(text: str) -> str:
    """Return a text quoted for LanceDB's filter language, which has no bound parameters."""
    return "'" + text.replace("'", "''") + "'"


def chains_condition(chains: Collection[Chain] | None) -> str:
    """Return the filter for the rows of `chains`. If `chains` is None, return '', which passes all rows."""
    return "" if chains is None else f"chain IN ({literals(chain.value for chain in chains)})"


def literals(texts: Iterable[str]) -> str:
    """Return texts quoted, sorted and joined by commas."""
    return ", ".join(map(literal, sorted(texts)))


def filter_condition(where: IndexFilter, deepest: Mapping[str, int]) -> str:
    """Return a LanceDB filter that passes every row that `where` admits. `deepest` is the greatest known depth of
    each branch of the path.

    Comparing depths reads a column of the whole table, so the comparison is left out if it would exclude nothing.
    `build_hits` excludes rows that another process has written meanwhile.
    """
    chains = sorted(chain.value for chain in where.chains)
    parts = [f"chain IN ({literals(chains)})" if chains else "false"]
    if where.lineage is not None:
        spans = [
            f"branch_id = {literal(span.branch_id)}"
            if span.upto_depth >= deepest[span.branch_id]
            else f"(branch_id = {literal(span.branch_id)} AND COALESCE(depth, 0) <= {int(span.upto_depth)})"
            for span in where.lineage
        ]
        parts.append("(" + " OR ".join(["branch_id IS NULL", *spans]) + ")")
    if where.exclude:
        parts.append(f"entry_id NOT IN ({literals(where.exclude)})")
    return " AND ".join(parts)


def build_hits(rows: Any, scores: Any, where: IndexFilter) -> Hits:
    """Return the rows that `where` admits and that have a score, best first.

    `scores` has one score per row; NaN means that the row has none.
    """
    columns = (*(rows[name].to_pylist() for name in SHOWN), scores.tolist())
    found = [
        (entry_id, float(score), depth or 0, sequence)
        for entry_id, branch, depth, sequence, score in zip(*columns, strict=True)
        if not isnan(score) and _on_path(where, branch, depth)
    ]
    return Hits.from_rows(sorted(found, key=lambda row: (-row[1], row[0])))


def _on_path(where: IndexFilter, branch: str | None, depth: int | None) -> bool:
    if where.lineage is None or branch is None:
        return True
    return any(span.branch_id == branch and (depth or 0) <= span.upto_depth for span in where.lineage)


def select_newer(batch: RowBatch, known: Any, behind: Collection[Chain]) -> RowBatch:
    """Return the part of `batch` that must still be written to a table, because another process has written to the table since
    the batch was made.

    In the chains `behind`, the table is newer than the batch. There, a row of the batch is returned only if it has a vector that
    the row in the table lacks. A row that the table does not have is not returned, because the other process has removed it.

    Args:
        known: The table's rows with ids of the batch.
        behind: Chains in which the table has newer rows than the batch's writer has read (`batch.watermarks`).
    """
    columns = (known[name].to_pylist() for name in ("entry_id", "chain", "sequence", WORDS, "embedder"))
    held = {entry_id: rest for entry_id, *rest in zip(*columns, strict=True)}

    def is_news(row: IndexRow) -> bool:
        if row.entry_id not in held:
            return row.chain not in behind
        _, sequence, words, embedder = held[row.entry_id]
        same = words == " ".join(row.tokens)
        if row.chain in behind:
            return bool(same and row.model and not embedder)
        return not (same and sequence == row.sequence and embedder and not row.model)

    removed = [
        entry_id
        for entry_id in batch.removed
        if entry_id in held and held[entry_id][1] <= batch.watermarks.get(Chain(held[entry_id][0]), 0)
    ]
    rows = tuple(row for row in batch.rows if is_news(row))
    return RowBatch(rows=rows, removed=tuple(removed), watermarks=batch.watermarks)


def highest_sequences(rows: Any) -> dict[Chain, int]:
    """Return the highest sequence of each chain. `rows` has the columns chain and sequence."""
    found = rows.group_by("chain").aggregate([("sequence", "max")])
    highest = zip(found["chain"].to_pylist(), found["sequence_max"].to_pylist(), strict=True)
    return {Chain(name): int(sequence) for name, sequence in highest}


def rows_to_arrow(rows: Sequence[IndexRow], width: int | None) -> Any:
    """Return rows as an Arrow table with their checksums, and with vectors of `width` dimensions (None: without vectors)."""
    columns: dict[str, Any] = {
        "entry_id": [row.entry_id for row in rows],
        "chain": [row.chain.value for row in rows],
        "branch_id": [row.branch_id for row in rows],
        "depth": [row.depth for row in rows],
        "sequence": [row.sequence for row in rows],
        WORDS: [" ".join(row.tokens) for row in rows],
        "embedder": [row.model for row in rows],
    }
    schema = pa.schema([field for field in SCHEMA if field not in SUM_FIELDS])
    if width is not None:
        schema = schema.append(pa.field(VECTOR, pa.list_(pa.float32(), width)))
        known = np.asarray([row.vector is not None for row in rows], dtype=np.bool_)
        blank = np.zeros(width, dtype=np.float32)
        flat = np.concatenate([blank if row.vector is None else row.vector for row in rows]).astype(np.float32)
        columns[VECTOR] = pa.FixedSizeListArray.from_arrays(pa.array(flat), width, mask=pa.array(~known))
    return with_sums(pa.table(columns, schema=schema))


def widen_batch(batch: Any, width: int | None) -> Any:
    """Return a batch of stored rows as a table with vectors of `width` dimensions (None: without vectors). Vectors of
    another width are left out.
    """
    table = pa.Table.from_batches([batch])
    if VECTOR in table.column_names and table[VECTOR].type.list_size != width:
        was_whole, table = whole_rows(table), table.drop_columns([VECTOR])
        # A row that was damaged stays so.
        sums = pc.if_else(pa.array(was_whole), pa.array(vector_sums(table)), table[VECTOR_SUM])
        table = table.set_column(table.column_names.index(VECTOR_SUM), VECTOR_SUM, sums)
    if width is not None and VECTOR not in table.column_names:
        table = table.append_column(VECTOR, pa.nulls(len(table), pa.list_(pa.float32(), width)))
    return table


def scope_from_table(table: Any) -> StoredScope:
    """Return a table as a `StoredScope`, in the order of writing, without the rows whose checksums do not fit."""
    whole = whole_rows(table)
    lost = len(table) - int(whole.sum())
    if lost:
        table = table.filter(pa.array(whole))
    table = table.sort_by("sequence").combine_chunks()
    chain_names, chains = _encode_column(table["chain"])
    branches, branch_codes = _encode_column(table["branch_id"])
    models, model_codes = _encode_column(table["embedder"])
    place_of = np.array([_CHAINS[name] for name in chain_names], dtype=np.int8)
    lists = pc.split_pattern(table[WORDS], " ")
    words = pc.list_flatten(lists).combine_chunks()
    empty = pc.equal(table[WORDS], "")
    lengths = pc.if_else(empty, 0, pc.list_value_length(lists)).to_numpy().astype(np.int64)
    vocabulary, codes = _encode_column(words.filter(pc.not_equal(words, "")))
    return StoredScope(
        ids=tuple(table["entry_id"].to_pylist()),
        chains=place_of[chains] if len(chains) else np.zeros(0, dtype=np.int8),
        branches=branches,
        branch_codes=branch_codes,
        depths=pc.fill_null(table["depth"], 0).to_numpy().astype(np.int32),
        placed=table["depth"].is_valid().to_numpy(),
        sequences=table["sequence"].to_numpy().astype(np.int64),
        models=models,
        model_codes=model_codes,
        words=vocabulary,
        codes=codes,
        lengths=lengths,
        vectors=_vectors(table[VECTOR]) if VECTOR in table.column_names and len(table) else None,
        lost=lost,
    )


def _encode_column(column: Any) -> tuple[tuple[Any, ...], npt.NDArray[np.int32]]:
    """Return the distinct values of a column (with null), and for each row the index of its value."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    coded = whole.dictionary_encode(null_encoding="encode")
    return tuple(coded.dictionary.to_pylist()), coded.indices.to_numpy().astype(np.int32)


def _vectors(column: Any) -> Vectors:
    whole = column.combine_chunks()
    width = whole.type.list_size
    vectors = np.full((len(whole), width), np.nan, dtype=np.float32)
    vectors[whole.is_valid().to_numpy(zero_copy_only=False)] = whole.drop_null().flatten().to_numpy().reshape(-1, width)
    return vectors


def graph_partitions(vectors: int) -> int:
    """Return the number of partitions of a graph of `vectors` vectors, or 0 if a scan is as fast (docs/decisions/0007).

    Below 100,000 vectors there is no graph: a scan is exact, and the scope is searched in memory anyway. Above that,
    the index IVF_HNSW_SQ has one partition per million rows, because filters halve the recall of finer partitions.
    """
    return max(1, vectors // _PARTITION_ROWS) if vectors >= _GRAPH_ROWS else 0
