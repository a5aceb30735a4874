"""One suite for every index: in memory, and in tiers with LanceDB on disk. Each rule of `Index` is one test."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import numpy as np
import pytest
from anyio import to_thread
from filelock import FileLock
from recall_parts import SESSION, WORLD, entry, said, unit, where, written

from mnemosyne import Chain
from mnemosyne.protocols import Index
from mnemosyne.retrieval.engines.lance.index import LanceIndex
from mnemosyne.retrieval.engines.rows import row_batch
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.indexing.renamed_index import RenamedIndex
from mnemosyne.schema.query import Hits, TextSearch
from mnemosyne.schema.record import SequencedEntry

pytestmark = pytest.mark.anyio

LORE = [
    entry("gate", "The temple gate opens to the silver key alone."),
    entry("river", "The river guild ferries travellers for two coins."),
    entry("庙", "神庙的大门只有银钥匙才能打开。"),
    entry("会", "河畔行会收两枚铜钱渡人过河。"),
]
VECTORS = unit([[1, 0, 0, 0], [0, 1, 0, 0], [1, 0.2, 0, 0], [0, 1, 0.2, 0]])


@pytest.fixture(params=["memory", "tiered", "big", "import", "renamed"])
async def index(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Index]:
    made: dict[str, Callable[[], Index]] = {
        "memory": MemoryIndex,
        "tiered": lambda: TieredIndex(tmp_path / "index"),
        "big": lambda: TieredIndex(tmp_path / "index", memory_rows=-1),
        "import": lambda: TieredIndex(tmp_path / "index", memory_rows=-1, delta_rows=0),
        "renamed": lambda: RenamedIndex(MemoryIndex(), str.upper),
    }
    one = made[request.param]()
    yield one
    await one.close()


async def ids(hits: Awaitable[Hits]) -> list[str]:
    return [*(await hits).entry_ids]


async def test_what_was_added_is_found_by_the_next_search(index: Index) -> None:
    await index.add(WORLD, written(LORE[:2]), None)
    assert await ids(index.search_text("temple key", where(), 5)) == ["gate"]
    await index.add(WORLD, written(LORE[2:], 3), None)
    assert await ids(index.search_text("河畔行会 guild", where(), 5)) == ["会", "river"]


async def test_several_searches_find_what_each_finds_on_its_own(index: Index) -> None:
    await index.add(WORLD, written(LORE), None)
    searches = [TextSearch(text, where(), 2) for text in ("temple key", "river coins", "nothing of it", "神庙的大门")]
    await index.add(SESSION, written([said("m1", "Wren", "the key", 1), entry("n1", "a key", Chain.NARRATIVE)]), None)
    searches += [TextSearch("key", where(SESSION, chains=frozenset({chain})), 2) for chain in Chain]
    found = await index.search_texts(searches)
    assert [hits.entry_ids for hits in found[4:]].count(()) == len(Chain) - 2
    assert found == [await index.search_text(*each[:3]) for each in searches]
    assert found[1].entry_ids[:1] == ("river",)


async def test_an_undamaged_scope_of_one_host_needs_nothing(index: Index) -> None:
    await index.add(WORLD, written(LORE), VECTORS, model="m")
    assert not await index.has_lost(WORLD)
    assert not await index.refresh(WORLD)
    assert await index.evict() == 0
    assert index.snapshot_of(WORLD) == ""
    assert index.degradations_for([WORLD]) == ()
    assert await index.remove_lost(WORLD)
    assert await ids(index.search_vector(VECTORS[1], where(), 1, model="m")) == ["river"]
    assert await index.encoder_of(WORLD) in ("m", "")


async def test_chinese_and_english_are_found_alike(index: Index) -> None:
    await index.add(WORLD, written(LORE), None)
    assert await ids(index.search_text("which key opens the temple?", where(), 1)) == ["gate"]
    assert await ids(index.search_text("那把钥匙是不是开启神庙的?", where(), 1)) == ["庙"]
    assert await ids(index.search_text("行会", where(), 5)) == ["会"]


async def test_adding_again_replaces_and_deleting_removes(index: Index) -> None:
    await index.add(WORLD, written(LORE), VECTORS, model="m")
    await index.add(WORLD, written([entry("gate", "A bare wall stands here now.")], 5), VECTORS[1:2], model="m")
    assert await index.count(WORLD) == 4
    assert await ids(index.search_text("temple", where(), 5)) == []
    assert await ids(index.search_text("wall", where(), 5)) == ["gate"]
    assert (await ids(index.search_vector(VECTORS[1], where(), 2, model="m"))) == ["gate", "river"]
    await index.add(WORLD, [SequencedEntry(sequence=6, entry=LORE[0], deleted=True)], None)
    assert await index.count(WORLD) == 3
    assert await ids(index.search_text("wall", where(), 5)) == []
    assert "gate" not in await ids(index.search_vector(VECTORS[1], where(), 9, model="m"))
    assert await index.watermark(WORLD, Chain.LORE) == 6


async def test_vectors_are_ranked_by_cosine_and_those_of_two_models_never_meet(index: Index) -> None:
    await index.add(WORLD, written(LORE), VECTORS, model="one")
    hits = await index.search_vector(VECTORS[0], where(), 2, model="one")
    assert hits.entry_ids == ("gate", "庙")
    assert hits.scores[0] == pytest.approx(1.0, abs=1e-5)
    assert hits.scores[1] == pytest.approx(float(VECTORS[0] @ VECTORS[2]), abs=1e-5)
    assert not await index.search_vector(VECTORS[0], where(), 2, model="two")
    assert await index.unembedded_ids(WORLD, "two", 9) == ("gate", "river", "庙", "会")
    await index.add(WORLD, written(LORE[:1]), unit([[1, 1]]), model="two")
    assert await ids(index.search_vector(unit([[1, 0]])[0], where(), 9, model="two")) == ["gate"]
    assert await index.unembedded_ids(WORLD, "two", 9) == ("river", "庙", "会")
    assert not await index.search_vector(VECTORS[0], where(), 2, model="one")


async def test_entries_without_a_vector_are_seen_but_not_found_by_one(index: Index) -> None:
    vectors = VECTORS.copy()
    vectors[2:] = np.nan
    await index.add(WORLD, written(LORE), vectors, model="m")
    assert await index.unembedded_ids(WORLD, "m", 9) == ()
    assert await ids(index.search_vector(VECTORS[0], where(), 9, model="m")) == ["gate", "river"]
    await index.add(WORLD, written([entry("late", "not looked at")], 9), None)
    assert await index.unembedded_ids(WORLD, "m", 9) == ("late",)


async def test_lineage_chains_and_exclusions_come_before_ranking(index: Index) -> None:
    scope = "session:s1"
    talk = [said(f"m{depth}", "Mara", f"The key, told at {depth}.", depth) for depth in range(1, 8)]
    side = [
        said(f"x{depth}", "Mara", f"The key key key of another life {depth}.", depth, "side") for depth in (4, 5, 6)
    ]
    rootless = entry("note", "A key without a place.", Chain.EVENT, scope=scope)
    await index.add(scope, written([*talk, *side, rootless]), None)
    main = [("main", 5)]
    assert set(await ids(index.search_text("key", where(scope, lineage=main), 50))) == {
        "m1",
        "m2",
        "m3",
        "m4",
        "m5",
        "note",
    }
    forked = [("side", 5), ("main", 3)]
    found = await ids(index.search_text("key", where(scope, lineage=forked), 50))
    assert set(found) == {"m1", "m2", "m3", "x4", "x5", "note"}
    assert set(await ids(index.search_text("key", where(scope, lineage=[]), 50))) == {"note"}
    history = where(scope, chains=frozenset({Chain.HISTORY}), lineage=main, exclude=["m1", "m2", "m3", "unknown"])
    assert set(await ids(index.search_text("key", history, 2))) == {"m4", "m5"}
    hits = await index.search_text("key", history, 2)
    assert dict(zip(hits.entry_ids, hits.depths, strict=True)) == {"m4": 4, "m5": 5}


async def test_ties_are_broken_by_id_and_the_limit_is_kept(index: Index) -> None:
    await index.add(WORLD, written([entry(name, "the same words") for name in "dbca"]), unit([[1, 0]] * 4), model="m")
    assert await ids(index.search_text("words", where(), 9)) == ["a", "b", "c", "d"]
    assert await ids(index.search_vector(unit([[1, 0]])[0], where(), 9, model="m")) == ["a", "b", "c", "d"]
    assert len(await index.search_text("words", where(), 2)) == 2


async def test_newest_and_watermarks(index: Index) -> None:
    assert await index.watermark(WORLD, Chain.LORE) == 0
    assert await index.newest_ids(WORLD, Chain.LORE, 2) == ()
    await index.add(WORLD, written(LORE, 11), None)
    assert await index.watermark(WORLD, Chain.LORE) == 14
    assert await index.watermark(WORLD, Chain.EVENT) == 0
    assert await index.newest_ids(WORLD, Chain.LORE, 2) == ("庙", "会")


async def test_terms_may_carry_weights(index: Index) -> None:
    await index.add(WORLD, written(LORE), None)
    assert await ids(index.search_text({"templ": 0.1, "guild": 3.0}, where(), 2)) == ["river", "gate"]
    assert await ids(index.search_text({"templ": 3.0, "guild": 0.1}, where(), 2)) == ["gate", "river"]
    assert not await index.search_text({}, where(), 2)
    assert not await index.search_text("?!", where(), 2)


async def test_keys_replace_the_words_of_an_entry(index: Index) -> None:
    await index.add(WORLD, written(LORE[:2]), None, keys=["moonlight", "sunlight"])
    assert await ids(index.search_text("sunlight", where(), 5)) == ["river"]
    assert not await index.search_text("temple", where(), 5)


@pytest.mark.parametrize("odd", ["it's", "a'; drop", "钥匙", 'quote"d', "per%cent_", "new\nline", "back\\slash", "{b}"])
async def test_ids_are_data_wherever_they_stand(index: Index, odd: str) -> None:
    scope = f"session:{odd}"
    chain = Chain.EVENT
    others = entry("other", "a key too", chain, scope=scope, branch_id=odd, depth=1)
    await index.add(scope, written([entry(odd, "the key", chain, scope=scope, branch_id=odd, depth=1), others]), None)
    assert set(await ids(index.search_text("key", where(scope, lineage=[(odd, 1)]), 5))) == {odd, "other"}
    assert await ids(index.search_text("key", where(scope, exclude=[odd]), 5)) == ["other"]
    await index.add(scope, [SequencedEntry(sequence=3, entry=entry(odd, "", chain, scope=scope), deleted=True)], None)
    assert await ids(index.search_text("key", where(scope), 5)) == ["other"]


async def test_a_scope_that_was_never_written_is_empty(index: Index) -> None:
    assert await index.count("session:none") == 0
    assert not await index.search_text("key", where("session:none"), 5)
    assert not await index.search_vector(VECTORS[0], where("session:none"), 5, model="m")
    assert await index.unembedded_ids("session:none", "m", 5) == ()
    await index.maintain()
    assert index.faults() == ()


async def test_what_another_process_wrote_deeper_on_the_path_stays_hidden(tmp_path: Path) -> None:
    one, other = LanceIndex(str(tmp_path / "index")), LanceIndex(str(tmp_path / "index"))
    path = where(SESSION, lineage=[("main", 1)])
    query = unit([[1, 0]])
    await one.write(SESSION, row_batch(written([said("m1", "Mara", "The silver key.", 1)]), query, None, "m"))
    assert await ids(one.search_vector(query[0], path, 5, model="m")) == ["m1"]
    await other.write(SESSION, row_batch(written([said("m2", "Wen", "It broke.", 2)], 2), query, None, "m"))
    assert await ids(one.search_vector(query[0], path, 5, model="m")) == ["m1"]
    deeper = where(SESSION, lineage=[("main", 2)])
    assert set(await ids(one.search_vector(query[0], deeper, 5, model="m"))) == {"m1", "m2"}
    await one.close()
    await other.close()


async def test_a_table_that_another_process_is_creating_is_waited_for(tmp_path: Path) -> None:
    """Its folder lies there already while the other still holds the lock, and the table is whole when the lock is free."""
    folder = tmp_path / "index"
    other = LanceIndex(str(tmp_path / "elsewhere"))
    await other.write(WORLD, row_batch(written([entry("e1", "a goat")]), None, None, ""))
    await other.close()
    (table,) = (tmp_path / "elsewhere").glob("*.lance")
    (folder / table.name).mkdir(parents=True)
    index, found = LanceIndex(str(folder)), []

    async def look() -> None:
        found.append(await index.watermark(WORLD, Chain.LORE))

    async with anyio.create_task_group() as group:
        with FileLock(folder / ".lock"):
            group.start_soon(look)
            await anyio.sleep(0.2)
            assert not found
            await to_thread.run_sync(partial(shutil.copytree, table, folder / table.name, dirs_exist_ok=True))
    assert found == [1]
    await index.close()


async def test_an_id_that_a_batch_holds_twice_counts_where_it_was_written_last(index: Index) -> None:
    rows = written([entry(f"e{number}", "a goat") for number in range(20)])
    again = SequencedEntry(sequence=21, entry=entry("e3", "a boat"))
    await index.add(WORLD, [*rows, again], None)
    assert await index.count(WORLD) == 20
    assert await ids(index.search_text("boat", where(WORLD), 5)) == ["e3"]
    assert "e3" not in await ids(index.search_text("goat", where(WORLD), 30))
