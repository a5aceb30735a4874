"""Computes and checks checksums of index rows: a CRC-32 of the searchable part of a row, and one of its vector.

Checksums guard against faults of disks and files. A row without checksums was written by an earlier release and is accepted.
This module imports pyarrow, so import this module only when a scope needs LanceDB.
"""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

TEXT_SUM = "text_sum"
VECTOR_SUM = "vector_sum"
SUM_FIELDS = (pa.field(TEXT_SUM, pa.int64()), pa.field(VECTOR_SUM, pa.int64()))
_NOTHING = "\x00"
_BREAK = "\x1f"
_FLOAT_BYTES = 4
_LOW = 0xFFFFFFFF


def with_sums(table: Any) -> Any:
    """Return rows with their checksums. `table` may have columns of checksums already; they are replaced."""
    sums = [text_sums(table), vector_sums(table)]
    table = table.drop_columns([field.name for field in SUM_FIELDS if field.name in table.column_names])
    for field, each in zip(SUM_FIELDS, sums, strict=True):
        table = table.append_column(field, pa.array(each))
    return table


def whole_rows(table: Any) -> npt.NDArray[np.bool_]:
    """Return, for each row of `table`, whether its checksums fit. A checksum is not checked if it or its columns are missing."""
    whole = np.ones(len(table), dtype=np.bool_)
    for name, calculate in ((TEXT_SUM, text_sums), (VECTOR_SUM, vector_sums)):
        if name in table.column_names and table[name].null_count < len(table):
            if name == VECTOR_SUM and "vector" not in table.column_names:
                continue
            stored = table[name]
            known = stored.is_valid().to_numpy()
            whole &= ~known | (pc.fill_null(stored, 0).to_numpy() == calculate(table))
    return whole


def text_sums(table: Any) -> npt.NDArray[np.int64]:
    """Return for each row the checksum of its id, chain, branch, depth, sequence and words."""
    parts = [_text_sums_of(batch) for batch in table.to_batches()]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def vector_sums(table: Any) -> npt.NDArray[np.int64]:
    """Return for each row the checksum of its vector and embedder. For a row without a vector it is the checksum of
    the embedder only.
    """
    parts = [_vector_sums_of(batch) for batch in table.to_batches()]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _text_sums_of(batch: Any) -> npt.NDArray[np.int64]:
    columns = [batch.column(name).cast(pa.binary()) for name in ("entry_id", "chain", "branch_id", "tokens")]
    columns = [pc.fill_null(column, _NOTHING.encode()) for column in columns]
    joined = pc.binary_join_element_wise(*columns, _BREAK.encode())
    sequences = pc.fill_null(batch.column("sequence"), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    depths = pc.fill_null(batch.column("depth"), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    # A CRC that starts from another number is another one.
    starts = (sequences ^ (sequences >> 32) ^ ((depths + 1) * 0x9E3779B1)) & _LOW
    return _sums(joined, starts.tolist())


def _sums(texts: Any, starts: list[int]) -> npt.NDArray[np.int64]:
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32, count=len(texts) + 1).tolist()
    view = memoryview(data) if data is not None else memoryview(b"")
    pieces = zip(pairwise(ends), starts, strict=True)
    return np.array([zlib.crc32(view[first:last], start) for (first, last), start in pieces], dtype=np.int64)


def _vector_sums_of(batch: Any) -> npt.NDArray[np.int64]:
    coded = batch.column("embedder").cast(pa.binary()).dictionary_encode(null_encoding="encode")
    names = [zlib.crc32(name or b"") for name in coded.dictionary.to_pylist()]
    sums = np.array(names, dtype=np.int64)[coded.indices.to_numpy()] if len(batch) else np.zeros(0, dtype=np.int64)
    if "vector" not in batch.schema.names:
        return sums
    vectors = batch.column("vector")
    known = vectors.is_valid().to_numpy(zero_copy_only=False)
    values = np.ascontiguousarray(vectors.drop_null().flatten().to_numpy(zero_copy_only=False))
    view = memoryview(values.view(np.uint8).data)
    size = vectors.type.list_size * _FLOAT_BYTES
    places = zip(range(0, len(view), size), sums[known].tolist(), strict=True)
    sums[known] = [zlib.crc32(view[first : first + size], start) for first, start in places]
    return sums
