"""Laws of the engines: large scopes and memory agree, memory finds what a plain scan finds, growing equals building."""

from __future__ import annotations

import tempfile

import anyio
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recall_parts import WORLD, entry, unit, where, written

from mnemosyne import Chain
from mnemosyne.retrieval.engines.rows import StoredScope
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.engines.tables.table import ScopeTable
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.schema.query import Hits

WORD = st.sampled_from(["key", "temple", "river", "guild", "moon", "神庙", "钥匙", "河畔", "行会", "银"])
TEXTS = st.lists(st.lists(WORD, max_size=8).map(" ".join), min_size=1, max_size=14)
QUERY = st.lists(WORD, min_size=1, max_size=5).map(" ".join)


@given(TEXTS, QUERY, st.integers(1, 20))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_memory_and_large_scopes_agree(texts: list[str], query: str, limit: int) -> None:
    entries = written([entry(f"e{number}", text) for number, text in enumerate(texts)])

    async def run(folder: str) -> None:
        memory, large = MemoryIndex(), TieredIndex(folder, memory_rows=-1)
        await memory.add(WORLD, entries, None)
        await large.add(WORLD, entries, None)
        await large.maintain()
        ours = await memory.search_text(query, where(), limit)
        assert await large.search_text(query, where(), limit) == ours
        await large.close()
        reread = TieredIndex(folder, memory_rows=-1)
        assert await reread.search_text(query, where(), limit) == ours
        await reread.close()

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(run, folder)


@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.integers(1, 10))
@settings(deadline=None)
def test_memory_finds_what_a_scan_finds(rows: int, seed: int, limit: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = unit(rng.normal(size=(rows, 8)).tolist())
    query = unit([rng.normal(size=8).tolist()])[0]
    entries = written([entry(f"e{number:02}", "x") for number in range(rows)])

    async def run() -> Hits:
        index = MemoryIndex()
        await index.add(WORLD, entries, vectors, model="m")
        return await index.search_vector(query, where(), limit, model="m")

    hits = anyio.run(run)
    expected = np.sort(vectors @ query)[::-1][:limit]
    assert hits.scores == pytest.approx(tuple(expected.tolist()), abs=1e-6)


def test_sign_codes_lose_next_to_nothing() -> None:
    """Above 10,000 rows the signs cut first; on clustered vectors the exact best 50 must nearly all be there."""
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(300, 128))
    rows = centres[rng.integers(0, 300, 16_000)] + rng.normal(size=(16_000, 128)) * 0.8
    vectors = unit(rows.tolist())
    table = ScopeTable()
    entries = written([entry(f"e{number}", "x") for number in range(len(vectors))])
    index = MemoryIndex()

    async def run() -> None:
        await index.add(WORLD, entries, vectors, model="m")

    anyio.run(run)
    table = index.table(WORLD)
    found = 0
    for query in unit((centres[:20] + rng.normal(size=(20, 128)) * 0.8).tolist()):
        exact = {f"e{number}" for number in np.argsort(-(vectors @ query))[:50]}
        found += len(exact.intersection(table.search_vector(query, "m", where(), 50).entry_ids))
    assert found / (20 * 50) > 0.97


def test_many_replacements_are_packed_away() -> None:
    async def run() -> None:
        index = MemoryIndex()
        for round_ in range(6):
            entries = [entry(f"e{number}", f"round{round_} key{number}") for number in range(500)]
            vectors = unit([[1.0, float(number)] for number in range(500)])
            await index.add(WORLD, written(entries, 1 + 500 * round_), vectors, model="m")
        assert await index.count(WORLD) == 500
        hits = await index.search_text("round5 key77", where(), 3)
        assert hits.entry_ids[0] == "e77"
        assert not await index.search_text("round4", where(), 3)
        assert (await index.search_vector(unit([[1.0, 0.0]])[0], where(), 1, model="m")).entry_ids == ("e0",)
        assert await index.newest_ids(WORLD, Chain.LORE, 1) == ("e499",)

    anyio.run(run)


def test_an_id_that_is_stored_twice_counts_where_it_was_written_last() -> None:
    none = np.zeros(2, dtype=np.int32)
    table = ScopeTable()
    table.fill(
        StoredScope(
            ids=("e1", "e1"),
            chains=np.full(2, list(Chain).index(Chain.LORE), dtype=np.int8),
            branches=(None,),
            branch_codes=none,
            depths=none,
            placed=np.zeros(2, dtype=np.bool_),
            sequences=np.array([1, 2]),
            models=("m",),
            model_codes=none,
            words=("old", "new"),
            codes=np.array([0, 1], dtype=np.int32),
            lengths=np.array([1, 1]),
            vectors=unit([[1.0, 0.0], [0.0, 1.0]]),
        )
    )
    assert table.count() == 1
    assert not table.search_text({"old": 1.0}, where(), 5)
    assert table.search_text({"new": 1.0}, where(), 5).sequences == (2,)
    assert table.search_vector(unit([[0.0, 1.0]])[0], "m", where(), 5).scores == pytest.approx((1.0,))
