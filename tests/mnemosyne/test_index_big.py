"""A scope too big for memory answers as one in memory does, whatever was written, removed, absorbed and reopened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import lancedb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lancedb.index import HnswSq
from recall_parts import SESSION, entry, unit, where, written

from mnemosyne import Chain, MemoryEntry
from mnemosyne.retrieval.engines.lance.files import table_name
from mnemosyne.retrieval.engines.lance.index import LanceIndex
from mnemosyne.retrieval.engines.large_scope import LargeScope
from mnemosyne.retrieval.engines.rows import row_batch
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.schema.query import Hits
from mnemosyne.schema.record import SequencedEntry

pytestmark = pytest.mark.anyio
NARRATIVE, HISTORY = frozenset({Chain.NARRATIVE}), frozenset({Chain.HISTORY})
FILTERS = (
    where(SESSION),
    where(SESSION, chains=HISTORY, lineage=[("main", 1_000)], exclude=["e1", "e2"]),
    where(SESSION, chains=HISTORY, lineage=[("main", 2), ("side", 1_000)]),
    where(SESSION, chains=NARRATIVE),
)
QUERY = unit([[1.0, 0.3, 0.2, 0.1]])[0]


def story(first: int, count: int, chain: Chain = Chain.HISTORY, branch: str = "main") -> list[MemoryEntry]:
    return [
        entry(f"e{number}", f"word{number % 3} of tale {number}", chain, depth=number, branch_id=branch)
        for number in range(first, first + count)
    ]


def drawn(seed: int, count: int) -> Any:
    return unit(np.random.default_rng(seed).standard_normal((count, 4)).tolist())


def large_scope(store: LanceIndex, *, delta_rows: int = 1_000, held_rows: int = 2) -> LargeScope:
    """A scope whose new graphs are due after a few rows."""
    return LargeScope(SESSION, store, delta_rows=delta_rows, held_rows=held_rows, least_delta_rows=3)


@asynccontextmanager
async def opened(
    folder: Path, store: LanceIndex | None = None, *, delta_rows: int = 1_000
) -> AsyncIterator[LargeScope]:
    store = store or LanceIndex(str(folder))
    index = large_scope(store, delta_rows=delta_rows)
    await index.open()
    yield index
    await index.close()
    await store.close()


async def filled(folder: Path, rows: int = 12, rare: int = 0) -> None:
    """Write the table of the graph."""
    store = LanceIndex(str(folder))
    entries = [*story(0, rows), *story(rows, rare, Chain.NARRATIVE)]
    await store.write(SESSION, row_batch(written(entries), drawn(1, len(entries)), None, "m"))
    await store.close()


def tables(folder: Path) -> list[Path]:
    return list(folder.glob("*.lance"))


def ids(hits: Hits) -> list[str]:
    return list(hits.entry_ids)


async def test_what_is_new_is_found_beside_the_graph_and_after_reopening(tmp_path: Path) -> None:
    await filled(tmp_path)
    async with opened(tmp_path) as index:
        await index.add(SESSION, written(story(20, 1), 20), unit([[1.0, 0.3, 0.2, 0.1]]), model="m")
        assert ids(await index.search_vector(QUERY, FILTERS[1], 3, model="m"))[0] == "e20"
        assert await index.count(SESSION) == 13
    async with opened(tmp_path) as index:
        assert ids(await index.search_vector(QUERY, FILTERS[1], 3, model="m"))[0] == "e20"
        assert ids(await index.search_text("tale 20", FILTERS[0], 1)) == ["e20"]
        assert await index.watermark(SESSION, Chain.HISTORY) == 20
        assert await index.newest_ids(SESSION, Chain.HISTORY, 2) == ("e11", "e20")
        assert await index.unembedded_ids(SESSION, "m", 5) == ()
        assert len(await index.unembedded_ids(SESSION, "another", 50)) == 13


async def test_what_is_written_again_counts_where_it_was_written_last(tmp_path: Path) -> None:
    await filled(tmp_path)
    async with opened(tmp_path) as index:
        best = ids(await index.search_vector(QUERY, FILTERS[0], 1, model="m"))[0]
        again = entry(best, "told anew", Chain.HISTORY, depth=1, branch_id="main")
        await index.add(SESSION, written([again], 30), -QUERY[None, :], model="m")
        hits = await index.search_vector(QUERY, FILTERS[0], 50, model="m")
        assert ids(hits)[-1] == best
        assert len(hits) == len(set(ids(hits))) == 12
        assert ids(await index.search_text("anew", FILTERS[0], 5)) == [best]


async def test_a_chain_of_few_entries_is_found_however_many_others_there_are(tmp_path: Path) -> None:
    await filled(tmp_path, rows=40, rare=2)
    async with opened(tmp_path, delta_rows=5) as index:
        assert set(ids(await index.search_vector(QUERY, FILTERS[3], 5, model="m"))) == {"e40", "e41"}


async def test_cosines_of_a_graph_stand_beside_those_from_memory(tmp_path: Path) -> None:
    """A graph of LanceDB gives twice the distance by itself: what is new would be before all that is in the graph."""
    near, rest = unit([[1.0, 0.3, 0.2, 0.1 + place] for place in (0.3, 0.6)]), drawn(2, 400)
    store = LanceIndex(str(tmp_path))
    entries = story(0, 402)
    await store.write(SESSION, row_batch(written(entries), np.concatenate([near, rest]), None, "m"))
    database = await lancedb.connect_async(tmp_path)
    table = await database.open_table(table_name(SESSION))
    await table.create_index("vector", config=HnswSq(distance_type="cosine", num_partitions=1))
    async with opened(tmp_path, delta_rows=5) as index:
        new = unit([[1.0, 0.3, 0.2, 0.1 + 0.9]])
        await index.add(SESSION, written(story(500, 1), 500), new, model="m")
        hits = await index.search_vector(QUERY, where(SESSION), 50, model="m")
    assert len(hits) == 50
    vectors = {"e500": new[0], **{f"e{place}": row for place, row in enumerate([*near, *rest])}}
    assert hits.scores == pytest.approx([float(vectors[name] @ QUERY) for name in hits.entry_ids], abs=1e-5)
    exact = sorted(vectors, key=lambda name: -float(vectors[name] @ QUERY))
    assert ids(hits)[:3] == exact[:3]


async def test_a_crash_loses_only_what_was_held_back(tmp_path: Path) -> None:
    await filled(tmp_path)
    crashed = large_scope(LanceIndex(str(tmp_path)), delta_rows=100, held_rows=4)
    await crashed.open()
    for number in range(20, 26):
        await crashed.add(SESSION, written(story(number, 1), number), drawn(number, 1), model="m")
    async with opened(tmp_path) as index:
        assert await index.watermark(SESSION, Chain.HISTORY) == 23


class BusyLance(LanceIndex):
    """Has a test do something before and after a table is absorbed."""

    async def nothing(self) -> None:
        return None

    before = after = nothing

    async def absorb(self, scope: str, other: str) -> None:
        await self.before()
        await super().absorb(scope, other)
        await self.after()


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_new_graph_takes_in_the_young_and_what_was_removed_meanwhile_stays_removed(
    tmp_path: Path, cut: str
) -> None:
    await filled(tmp_path)
    lance = BusyLance(str(tmp_path))
    async with opened(tmp_path, lance) as index:
        await index.add(SESSION, written(story(20, 6), 20), drawn(2, 6), model="m")

        async def remove() -> None:
            gone = [SequencedEntry(sequence=40, entry=story(20, 1)[0], deleted=True)]
            await index.add(SESSION, gone, None)

        async def write() -> None:
            if cut == "after":
                await remove()
            await index.add(SESSION, written(story(41, 1), 41), drawn(3, 1), model="m")

        lance.after = write
        if cut == "before":
            lance.before = remove
        await index.maintain()
        found = set(ids(await index.search_vector(QUERY, FILTERS[0], 50, model="m")))
        assert found == {f"e{number}" for number in (*range(12), *range(21, 26), 41)}
        assert len(tables(tmp_path)) == 1, "the table of what was young is gone"
    store = LanceIndex(str(tmp_path))
    assert await store.count(SESSION) == 17
    await store.close()
    async with opened(tmp_path) as index:
        assert set(ids(await index.search_vector(QUERY, FILTERS[0], 50, model="m"))) == found


async def pulled_out() -> None:
    raise OSError("pulled out")


async def test_an_absorption_that_was_cut_off_is_done_again(tmp_path: Path) -> None:
    await filled(tmp_path)
    lance = BusyLance(str(tmp_path))
    lance.before = pulled_out
    async with opened(tmp_path, lance) as index:
        await index.add(SESSION, written(story(20, 6), 20), drawn(2, 6), model="m")
        with pytest.raises(OSError, match="pulled"):
            await index.maintain()
        await index.add(SESSION, written(story(30, 3), 30), drawn(3, 3), model="m")
        before = await index.search_vector(QUERY, FILTERS[0], 50, model="m")
    async with opened(tmp_path) as index:
        assert ids(await index.search_vector(QUERY, FILTERS[0], 50, model="m")) == ids(before)
        await index.maintain()
        await index.maintain()
        assert ids(await index.search_vector(QUERY, FILTERS[0], 50, model="m")) == ids(before)
    store = LanceIndex(str(tmp_path))
    assert await store.count(SESSION) == 18
    await store.close()


async def test_the_newer_of_two_young_tables_counts_whichever_name_it_has(tmp_path: Path) -> None:
    await filled(tmp_path)
    lance = BusyLance(str(tmp_path))
    async with opened(tmp_path, lance) as index:
        await index.add(SESSION, written(story(20, 6), 20), drawn(2, 6), model="m")
        await index.maintain()
        await index.add(SESSION, written(story(30, 6), 30), drawn(3, 6), model="m")
        lance.before = pulled_out
        with pytest.raises(OSError, match="pulled"):
            await index.maintain()
        newer = [*story(40, 1), entry("e30", "told anew", Chain.HISTORY, depth=30, branch_id="main")]
        await index.add(SESSION, written(newer, 40), np.stack([QUERY, QUERY]), model="m")
        before = await index.search_vector(QUERY, FILTERS[0], 50, model="m")
    for _ in range(2):
        async with opened(tmp_path) as index:
            assert ids(await index.search_vector(QUERY, FILTERS[0], 50, model="m")) == ids(before)
            assert ids(await index.search_text("anew", FILTERS[0], 5)) == ["e30"]
            await index.maintain()


async def test_nothing_of_a_dropped_scope_is_left(tmp_path: Path) -> None:
    await filled(tmp_path)
    index = TieredIndex(tmp_path, memory_rows=5)
    await index.add(SESSION, written(story(20, 1), 20), drawn(2, 1), model="m")
    await index.maintain()
    await index.drop(SESSION)
    assert tables(tmp_path) == []
    assert not await index.search_text("tale", FILTERS[0], 5)
    await index.close()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 14), st.integers(1, 4), st.sampled_from(["main", "side"])),
        st.tuples(st.just("tell"), st.integers(15, 20), st.integers(1, 2), st.just("main")),
        st.tuples(st.just("remove"), st.integers(0, 20), st.just(1), st.just("main")),
        st.sampled_from([("settle", 0, 0, ""), ("reopen", 0, 0, "")]),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=12, deadline=None)
@given(steps=STEPS, delta_rows=st.sampled_from([0, 4, 1_000]))
def test_it_answers_as_memory_does(steps: list[tuple[str, int, int, str]], delta_rows: int) -> None:
    async def play(folder: Path) -> None:
        await filled(folder, rows=8)
        plain = MemoryIndex()
        await plain.add(SESSION, written(story(0, 8)), drawn(1, 8), model="m")
        sequence = 8
        stores = [LanceIndex(str(folder))]
        index = large_scope(stores[0], delta_rows=delta_rows)
        await index.open()
        for kind, first, count, branch in steps:
            if kind == "settle":
                await index.maintain()
            elif kind == "reopen":
                await index.close()
                index = large_scope(stores[0], delta_rows=delta_rows)
                await index.open()
            else:
                entries = story(first, count, Chain.NARRATIVE if kind == "tell" else Chain.HISTORY, branch)
                items = [
                    SequencedEntry(sequence=sequence + place, entry=each, deleted=kind == "remove")
                    for place, each in enumerate(entries, 1)
                ]
                sequence += len(items)
                vectors = drawn(sequence, len(items))
                for one in (plain, index):
                    await one.add(SESSION, items, vectors, model="m")
            for admitted in FILTERS:
                words = [await one.search_text("word1 tale", admitted, 50) for one in (plain, index)]
                assert words[0] == words[1]
                near = [await one.search_vector(QUERY, admitted, 50, model="m") for one in (plain, index)]
                assert ids(near[0]) == ids(near[1])
                assert np.allclose(near[0].scores, near[1].scores, atol=1e-5)
            assert await plain.count(SESSION) == await index.count(SESSION)
        await index.close()
        await stores[0].close()

    with TemporaryDirectory() as folder:
        anyio.run(play, Path(folder))
