"""What an index lacks is found out, said, and brought back: deleted, damaged, behind, or of another store."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lancedb
import pytest
from recall_parts import SESSION, WORLD, LetterEmbedder, entry, question, said, scores_of, where

from mnemosyne import CalibratedEstimator, Embedder
from mnemosyne.core.errors import IndexUnavailableError
from mnemosyne.retrieval.engines.lance.files import table_name
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.entry_list import EntryList
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.retrieval.recall.indexing.indexer import Indexer

pytestmark = pytest.mark.anyio

TALK = [said(f"m{n}", "Mara" if n % 2 else "Wen", f"the {n}th key of house{n % 9} 钥匙", n) for n in range(1, 61)]


def retriever(
    source: EntryList, index: TieredIndex, embedder: Embedder | None = None, **settings: int
) -> HybridRetriever:
    return HybridRetriever(source, index, embedder, CalibratedEstimator(), **settings)


async def found(index: TieredIndex) -> list[tuple[str, float]]:
    return [*scores_of(await index.search_text("house3 钥匙", where(SESSION), 99)).items()]


async def test_a_whole_index_is_kept_and_what_is_new_is_added(tmp_path: Path) -> None:
    source = EntryList(TALK[:40])
    index = TieredIndex(tmp_path)
    one = retriever(source, index)
    assert (await one.rebuild(SESSION)).added == 40
    source.append(TALK[40:])
    source.remove(TALK[:2])
    seen: list[tuple[int, int]] = []
    done = await one.rebuild(SESSION, progress=lambda *step: seen.append(step))
    assert (done.kept, done.added, done.rebuilt, done.fault) == (40, 22, False, "")
    assert seen[-1] == (22, 22)
    assert await index.count(SESSION) == 58
    again = await one.rebuild(SESSION)
    assert (again.kept, again.added, again.rebuilt) == (58, 0, False)
    assert (await one.rebuild(SESSION, force=True)).added == 62
    assert await index.count(SESSION) == 58
    await one.close()


@pytest.mark.parametrize("tier", [{}, {"memory_rows": 5}], ids=["memory", "large"])
@pytest.mark.parametrize("harm", ["folder", "files", "garbage", "truncate"])
async def test_what_is_lost_or_damaged_is_built_again(tmp_path: Path, harm: str, tier: dict[str, int]) -> None:
    folder = tmp_path / "index"
    source = EntryList([*TALK, entry("lore", "a lantern")])
    whole = retriever(source, TieredIndex(folder, **tier), LetterEmbedder())
    for scope in (SESSION, WORLD):
        await whole.sync(scope)
    await whole.close()
    before = await found(TieredIndex(folder, **tier))
    damage(folder, harm)
    index = TieredIndex(folder, **tier)
    one = retriever(source, index, LetterEmbedder())
    if harm not in ("folder", "files"):
        recall = await one.recall(question("house3 钥匙", world_id=""))
        assert "index_damaged" in recall.degradations
        assert recall.candidates, "recall goes on with what the store has"
    done = await one.rebuild(SESSION)
    assert done.fault == ""
    assert index.faults() == ()
    assert await found(index) == before
    assert await index.unembedded_ids(SESSION, "letters", 9) == ()
    await one.close()
    reopened = TieredIndex(folder, **tier)
    assert await found(reopened) == before
    assert reopened.faults() == ()
    assert await reopened.count(WORLD) == (0 if harm == "folder" else 1)
    await reopened.close()


DAMAGED = {
    "words": {"tokens": "another word"},
    "id": {"entry_id": "m999"},
    "sequence": {"sequence": 5},
    "depth": {"depth": 900},
    "branch": {"branch_id": "other"},
    "chain": {"chain": "histori"},
    "embedder": {"embedder": "lettert"},
    "vector": {"vector": [0.5] * 26},
}


def change_row(folder: Path, where: str, values: dict[str, Any], scope: str = SESSION) -> None:
    """Change a row as a fault of the disk does: without its checksums."""
    lancedb.connect(str(folder)).open_table(table_name(scope)).update(where=where, values=values)


@pytest.mark.parametrize("harm", DAMAGED)
async def test_a_damaged_row_is_named_and_made_again(tmp_path: Path, harm: str) -> None:
    tier = {"memory_rows": 5}
    source = EntryList(TALK)
    whole = retriever(source, TieredIndex(tmp_path, **tier), LetterEmbedder())
    await whole.sync(SESSION)
    await whole.close()
    before = await found(TieredIndex(tmp_path, **tier))
    change_row(tmp_path, "entry_id = 'm30'", DAMAGED[harm])
    index, model = TieredIndex(tmp_path, **tier), LetterEmbedder()
    one = retriever(source, index, model)
    recall = await one.recall(question("house3 钥匙", world_id=""))
    assert "index_damaged" in recall.degradations
    assert recall.candidates
    assert "damaged rows" in index.faults()[0]
    await one.feed([SESSION])
    assert index.faults() == ()
    assert len(model.embedded) < 12, "the others keep their vectors"
    assert await found(index) == before
    assert await index.unembedded_ids(SESSION, "letters", 9) == ()
    await one.close()
    reopened = TieredIndex(tmp_path, **tier)
    assert await found(reopened) == before
    assert await reopened.count(SESSION) == 60
    assert await reopened.unembedded_ids(SESSION, "letters", 9) == ()
    assert reopened.faults() == ()
    await reopened.close()


async def test_a_changed_bit_in_the_words_of_a_file_is_named(tmp_path: Path) -> None:
    source = EntryList(TALK)
    whole = retriever(source, TieredIndex(tmp_path, memory_rows=5))
    await whole.sync(SESSION)
    await whole.close()
    (file,) = (tmp_path / f"{table_name(SESSION)}.lance" / "data").iterdir()
    data = bytearray(file.read_bytes())
    place = data.index(b"house3")
    data[place] ^= 1
    file.write_bytes(data)
    index = TieredIndex(tmp_path, memory_rows=5)
    assert await index.count(SESSION) == 59
    assert len(index.faults()) == 1
    done = await retriever(source, index).rebuild(SESSION)
    assert (done.kept, done.added, done.rebuilt, done.fault) == (60, 0, False, "")
    await index.close()


async def test_damage_is_kept_until_the_rows_of_another_process_were_read(tmp_path: Path) -> None:
    source = EntryList(TALK[:40])
    whole = retriever(source, TieredIndex(tmp_path, memory_rows=5))
    await whole.sync(SESSION)
    await whole.close()
    change_row(tmp_path, "entry_id = 'm30'", {"entry_id": "m999"})
    slow = TieredIndex(tmp_path, memory_rows=5)
    assert len(slow.faults()) == 0
    assert await slow.has_lost(SESSION)
    source.append(TALK[40:])
    other = retriever(source, TieredIndex(tmp_path, memory_rows=5))
    assert await Indexer(source, TieredIndex(tmp_path, memory_rows=5), None).mend(SESSION) == 1
    await other.sync(SESSION)
    await other.close()
    await Indexer(source, slow, None).mend(SESSION)
    await slow.close()
    reopened = TieredIndex(tmp_path, memory_rows=5)
    assert await reopened.count(SESSION) == 60
    assert reopened.faults() == ()
    await reopened.close()


def damage(folder: Path, harm: str) -> None:
    """Damage the durable form of the session's scope."""
    table, checkpoint = (folder / f"{table_name(SESSION)}{end}" for end in (".lance", ".checkpoint"))
    if harm == "folder":
        shutil.rmtree(folder)
    elif harm == "files":
        shutil.rmtree(table) if table.exists() else checkpoint.unlink()
    for file in [*table.glob("data/*.lance"), checkpoint] if harm in ("truncate", "garbage") else []:
        if file.exists():
            data = file.read_bytes()
            file.write_bytes(data[: len(data) // 2] if harm == "truncate" else b"\x00rubbish" * 40)


async def test_an_index_of_another_store_is_found_out(tmp_path: Path) -> None:
    first = retriever(EntryList(TALK), TieredIndex(tmp_path))
    await first.sync(SESSION)
    await first.close()
    for others in (TALK[5:50], [*TALK[:20], said("x", "", "else", 21), *TALK[20:]]):
        index = TieredIndex(tmp_path)
        done = await retriever(EntryList(others), index).rebuild(SESSION)
        assert (done.rebuilt, done.kept, done.added) == (True, 0, len(others))
        assert await index.count(SESSION) == len(others)
        await index.close()


async def test_an_entry_that_should_be_gone_is_found_out() -> None:
    source, index = EntryList(TALK[:5]), MemoryIndex()
    feeder = Indexer(source, index, None)
    await feeder.index_new(SESSION)
    source.remove(TALK[1:2])
    source.append(TALK[5:6])
    await index.add(SESSION, await source.entries_after(SESSION, TALK[0].chain, 6, 9), None)
    done = await feeder.rebuild(SESSION)
    assert done.rebuilt
    assert await index.newest_ids(SESSION, TALK[0].chain, 99) == ("m1", "m3", "m4", "m5", "m6")


async def test_a_recall_brings_in_a_bounded_number_and_says_that_it_is_behind(tmp_path: Path) -> None:
    pages = [said(f"p{n}", "", f"word{n} of the tale", n) for n in range(1, 2501)]
    index = TieredIndex(tmp_path)
    one = retriever(EntryList(pages), index, inline_entries=1000)
    first = await one.recall(question("tale", world_id=""))
    assert "index_behind" in first.degradations
    assert first.candidates
    assert 1000 <= await index.count(SESSION) < 2500
    while "index_behind" in (await one.recall(question("tale", world_id=""))).degradations:
        pass
    assert await index.count(SESSION) == 2500
    await one.close()


async def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("in the way")
    one = retriever(EntryList(TALK), TieredIndex(tmp_path / "index"))
    with pytest.raises(IndexUnavailableError, match="index"):
        await one.rebuild(SESSION)
