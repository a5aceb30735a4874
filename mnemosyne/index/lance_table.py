"""What is asked of one LanceDB table: its indexes, its columns, its searches.

Beside `lance` the only file that imports lancedb, and like it imported only where a configuration names it. Whatever LanceDB
raises passes through.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

# Its engine warns on stderr of every reading of an index's figures unless it is told which kind is wanted.
os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")

import pyarrow as pa
from lancedb.index import FTS, Bitmap, BTree, HnswSq
from lancedb.query import BooleanQuery, MatchQuery, Occur

from mnemosyne.index.lance_rows import SHOWN, VECTOR, WORDS, graph_partitions
from mnemosyne.protocols import Vectors

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


async def index_columns(table: Any, *, words: bool) -> None:
    """Make the indexes of filters that are not there; `words`: that of the words too."""
    known = {name for index in await table.list_indices() for name in index.columns}
    for name, config in _WANTED.items():
        if name not in known and (words or name != WORDS):
            await table.create_index(name, config=config)


async def index_vectors(table: Any, *, anew: bool = False) -> None:
    """Make the graph of a table that is big enough for one: always with `anew`, else where it has none or an outgrown one."""
    if await width_of(table) is None:
        return
    partitions = graph_partitions(int(await table.count_rows(f"{VECTOR} IS NOT NULL")))
    if partitions and (anew or await _outgrown(table)):
        await table.create_index(VECTOR, config=HnswSq(distance_type="cosine", num_partitions=partitions))


async def width_of(table: Any) -> int | None:
    """Return the dimensions of the vectors; None where there is no column for them."""
    schema = await table.schema()
    return int(schema.field(VECTOR).type.list_size) if VECTOR in schema.names else None


async def fit_width(table: Any, wanted: int | None) -> int | None:
    """Make the vectors as wide as wanted (None: as they are) and return that; those of another width were another model's."""
    width = await width_of(table)
    if wanted is None or wanted == width:
        return width
    if width is not None:
        await table.drop_columns([VECTOR])
        await table.update({"embedder": ""})
    await table.add_columns(pa.field(VECTOR, pa.list_(pa.float32(), wanted)))
    return wanted


async def upsert(table: Any, rows: Any) -> None:
    """Write rows, replacing those of the same id."""
    merge = table.merge_insert("entry_id").when_matched_update_all().when_not_matched_insert_all()
    await merge.execute(rows, on_bad_vectors="null")


def nearest_to(table: Any, vector: Vectors, limit: int) -> Any:
    """Return the query for the nearest by cosine, to be given a filter and columns."""
    query = table.query().nearest_to(vector).column(VECTOR).distance_type("cosine")
    return query.ef(max(128, 2 * limit)).limit(limit)


async def matching(table: Any, words: Any, admitted: str, limit: int) -> Any:
    """Return the best rows of a query of words, with `_score`."""
    query = table.query().nearest_to_text(words).where(admitted)
    return await query.select([*SHOWN, "_score"]).limit(limit).to_arrow()


def match(weight: float, terms: Sequence[str]) -> Any:
    """Return the query for any of some terms of one weight."""
    query: Any = MatchQuery
    return query(" ".join(terms), WORDS, boost=weight)


def any_of(classes: Mapping[float, Sequence[str]]) -> Any:
    """Return the query that adds up the scores of all terms, each times its weight."""
    return BooleanQuery([(Occur.SHOULD, match(*each)) for each in classes.items()])


def met_another(error: Exception) -> bool:
    """Say whether a write failed only because another one came between; tried again, it will do."""
    return any(word in str(error).lower() for word in ("commit conflict", "concurrent", "conflicting"))


async def _outgrown(table: Any) -> bool:
    """Say whether there is no vector index, or one that knows less than half of the rows; searches scan the others."""
    for index in await table.list_indices():
        if VECTOR in index.columns:
            stats = await table.index_stats(index.name)
            return stats is None or bool(stats.num_unindexed_rows > stats.num_indexed_rows)
    return True
