"""Scopes open from their checkpoints: the same search, no engine, and a part that serves while the rest is read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from anyio import from_thread, to_thread
from recall_parts import ALL, SESSION, LetterEmbedder, question, said, unit, written

from mnemosyne import (
    BranchSpan,
    CalibratedEstimator,
    Chain,
    EntryList,
    HybridRetriever,
    IndexFilter,
    TieredIndex,
    UnreadableError,
)
from mnemosyne.retrieval.engines.checkpoints.array_file import map_arrays, read_about, write_arrays
from mnemosyne.retrieval.engines.checkpoints.checkpoint import read_checkpoint, stamp_of, write_checkpoint
from mnemosyne.retrieval.engines.checkpoints.scopes import CheckpointedScopes
from mnemosyne.retrieval.engines.lance.files import checkpoint_file, read_stamp
from mnemosyne.retrieval.engines.rows import row_batch
from mnemosyne.retrieval.engines.tables.table import ScopeTable
from mnemosyne.retrieval.engines.tiers.durable import open_engine

pytestmark = pytest.mark.anyio

SCOPE = SESSION
PATH = (BranchSpan(branch_id="main", upto_depth=50), BranchSpan(branch_id="side", upto_depth=9))


def talk(count, first=0, word="key"):
    return [
        said(
            f"m{number}",
            "Wen",
            f"The {number}th {word} of house{number % 7} 钥匙.",
            number + 1,
            "main" if number % 3 else "side",
        )
        for number in range(first, first + count)
    ]


def vectors_of(count, seed=3):
    return unit(np.random.default_rng(seed).standard_normal((count, 24)))


def looks(table):
    """Return what a table answers to all kinds of questions."""
    found = []
    for lineage in (None, PATH):
        where = IndexFilter(scope=SCOPE, chains=ALL, lineage=lineage, exclude=frozenset({"m7"}))
        found.append(table.search_text({"house3": 1.0, "key": 0.5, "钥匙": 0.2}, where, 20))
        found.append(table.search_vector(vectors_of(1, 9)[0], "m", where, 20))
    return found, table.count(), table.newest_ids(Chain.HISTORY, 5), table.unembedded_ids("m", 9), table.model


@pytest.mark.parametrize("count", [3, 60, 1_500, 11_000])
def test_a_restored_table_answers_as_the_one_it_was_made_of(tmp_path, count):
    table = ScopeTable()
    table.put(row_batch(written(talk(count)), vectors_of(count), None, "m"))
    # Some are replaced, one is removed, one has no vector: dead slots, and a tail of words.
    table.put(row_batch(written(talk(2, word="lock"), first=count + 1), None, None, ""))
    write_checkpoint(str(tmp_path), SCOPE, "state 1", "", table)
    kept = read_checkpoint(str(tmp_path), SCOPE)
    assert kept is not None
    assert (kept.stamp, stamp_of(str(tmp_path), SCOPE)) == ("state 1", "state 1")
    assert looks(kept.table) == looks(table)
    # It goes on as the first one does, and the file stays as it was.
    for each in (table, kept.table):
        each.put(row_batch(written(talk(30, first=count), first=count + 10), vectors_of(30, 5), None, "m"))
    assert looks(kept.table) == looks(table)
    again = read_checkpoint(str(tmp_path), SCOPE)
    assert again is not None
    assert again.table.count() == count


def test_a_damaged_file_is_none(tmp_path):
    table = ScopeTable()
    table.put(row_batch(written(talk(9)), vectors_of(9), None, "m"))
    write_checkpoint(str(tmp_path), SCOPE, "state", "", table)
    file = checkpoint_file(str(tmp_path), SCOPE)
    whole = file.read_bytes()
    assert file.stat().st_mode & 0o077 == 0
    for place in (3, 20, 200, len(whole) // 2, len(whole) - 64):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert read_checkpoint(str(tmp_path), SCOPE) is None or place == len(whole) - 64
    for end in (0, 10, 30, len(whole) // 2):
        file.write_bytes(whole[:end])
        assert read_checkpoint(str(tmp_path), SCOPE) is None
    file.write_bytes(whole)
    assert read_checkpoint(str(tmp_path), SCOPE) is not None
    assert read_checkpoint(str(tmp_path), "session:another") is None


def test_arrays_are_given_back_and_may_be_changed_in_memory(tmp_path):
    arrays = {
        "none": np.zeros((0, 3), np.float32),
        "few": np.arange(6, dtype=np.int32).reshape(2, 3),
        "yes": np.array([True]),
    }
    file = tmp_path / "arrays"
    write_arrays(file, b'"about"', arrays)
    about, found = map_arrays(file)
    assert (about, read_about(file)) == (b'"about"', b'"about"')
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)
    found["few"][0, 0] = 99
    assert map_arrays(file)[1]["few"][0, 0] == 0
    assert [each.name for each in tmp_path.iterdir()] == ["arrays"]
    file.write_bytes(b"something else that is long enough for a head")
    with pytest.raises(UnreadableError):
        map_arrays(file)


async def fill(folder, count=40):
    index = TieredIndex(folder)
    await index.add(SCOPE, written(talk(count)), vectors_of(count), model="m")
    await index.close()


async def words(index, text="house3", limit=50):
    hits = await index.search_text(text, IndexFilter(scope=SCOPE, chains=ALL), limit)
    return {hit.entry_id for hit in hits}


def test_a_scope_opens_without_the_engine(tmp_path):
    program = f"""
import sys, anyio
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_checkpoints import fill, words
from mnemosyne import TieredIndex
async def main():
    if sys.argv[1] == "fill":
        await fill({str(tmp_path)!r})
        return
    index = TieredIndex({str(tmp_path)!r})
    assert len(await words(index)) == 6
    assert await words(TieredIndex({str(tmp_path)!r} + "/new")) == set()
    assert index.degradations_for(["session:s1"]) == ()
    await index.close()
    assert not {{"lancedb", "pyarrow"}} & sys.modules.keys()
anyio.run(main)
"""
    for step in ("fill", "read"):
        subprocess.run([sys.executable, "-c", program, step], check=True)


async def test_a_checkpoint_that_could_not_be_written_is_written_after_the_next_turn(tmp_path):
    index = TieredIndex(tmp_path)
    await index.add(SCOPE, written(talk(40)), vectors_of(40), model="m")
    file = checkpoint_file(str(tmp_path), SCOPE)
    # As a full disk does: the file cannot take its place.
    await to_thread.run_sync(file.mkdir)
    await index.maintain()
    assert await to_thread.run_sync(file.is_dir)
    await to_thread.run_sync(file.rmdir)
    await index.maintain()
    saved = await to_thread.run_sync(stamp_of, str(tmp_path), SCOPE)
    assert saved == (await to_thread.run_sync(read_stamp, str(tmp_path), SCOPE))[1] != ""
    # Once it is there, it is not written again.
    written_at = (await to_thread.run_sync(file.stat)).st_mtime_ns
    await index.maintain()
    assert (await to_thread.run_sync(file.stat)).st_mtime_ns == written_at
    await index.close()


async def test_an_earlier_state_serves_while_the_scope_is_read(tmp_path):
    await fill(tmp_path)
    early = checkpoint_file(str(tmp_path), SCOPE).read_bytes()
    late = TieredIndex(tmp_path)
    await late.add(SCOPE, written(talk(10, first=40), first=41), vectors_of(10), model="m")
    await late.close()
    checkpoint_file(str(tmp_path), SCOPE).write_bytes(early)
    index = TieredIndex(tmp_path, head_start_seconds=1_000)
    assert await words(index) == {f"m{number}" for number in range(3, 40, 7)}
    assert index.degradations_for([SCOPE]) == ("index_loading",)
    assert await index.watermark(SCOPE, Chain.HISTORY) == 40
    # Written to the part, once without the vector that the table has, and once anew.
    await index.add(SCOPE, written(talk(2, first=40), first=41), None, model="")
    await index.add(SCOPE, written(talk(1, first=50, word="door"), first=51), vectors_of(1), model="m")
    assert "m50" in await words(index, "door")
    await index.close()
    whole = TieredIndex(tmp_path)
    await whole.wait_until_whole(SCOPE)
    assert await words(whole) == {f"m{number}" for number in range(3, 50, 7)}
    assert "m50" in await words(whole, "door")
    assert await whole.unembedded_ids(SCOPE, "m", 9) == ()
    assert whole.degradations_for([SCOPE]) == ()
    await whole.close()


async def test_what_is_added_to_a_part_is_in_the_whole(tmp_path):
    await fill(tmp_path)
    early = checkpoint_file(str(tmp_path), SCOPE).read_bytes()
    late = TieredIndex(tmp_path)
    await late.add(SCOPE, written(talk(10, first=40), first=41), vectors_of(10), model="m")
    await late.close()
    checkpoint_file(str(tmp_path), SCOPE).write_bytes(early)
    index = TieredIndex(tmp_path)
    await index.count(SCOPE)
    await index.add(SCOPE, written(talk(2, first=40), first=41), None, model="")
    await index.add(SCOPE, written(talk(1, first=50, word="door"), first=51), None, model="")
    await index.wait_until_whole(SCOPE)
    assert index.degradations_for([SCOPE]) == ()
    assert await index.count(SCOPE) == 51
    assert "m50" in await words(index, "door")
    assert await index.unembedded_ids(SCOPE, "m", 9) == ("m50",)
    # Reading it has made the checkpoint of its table.
    saved = await to_thread.run_sync(stamp_of, str(tmp_path), SCOPE)
    assert saved == (await to_thread.run_sync(read_stamp, str(tmp_path), SCOPE))[1] != ""
    await index.close()
    again = TieredIndex(tmp_path)
    assert again.degradations_for([SCOPE]) == ()
    assert await again.count(SCOPE) == 51
    assert await again.unembedded_ids(SCOPE, "m", 9) == ("m50",)
    await again.close()


async def test_the_newest_rows_serve_where_there_is_no_checkpoint(tmp_path):
    await fill(tmp_path)
    checkpoint_file(str(tmp_path), SCOPE).unlink()
    index = TieredIndex(tmp_path, long_rows=30, part_rows=10)
    assert await words(index) == {"m31", "m38"}
    assert await index.watermark(SCOPE, Chain.HISTORY) == 40
    assert index.degradations_for([SCOPE]) == ("index_loading",)
    await index.wait_until_whole(SCOPE)
    assert await words(index) == {f"m{number}" for number in range(3, 40, 7)}
    await index.close()


async def test_recall_says_what_was_searched_and_feeding_waits_for_the_whole(tmp_path):
    source = EntryList(talk(40))
    first = HybridRetriever(source, TieredIndex(tmp_path), LetterEmbedder(), CalibratedEstimator())
    await first.sync(SCOPE)
    await first.close()
    early = checkpoint_file(str(tmp_path), SCOPE).read_bytes()
    source.append(talk(10, first=40))
    later = HybridRetriever(source, TieredIndex(tmp_path), LetterEmbedder(), CalibratedEstimator())
    await later.sync(SCOPE)
    await later.close()
    checkpoint_file(str(tmp_path), SCOPE).write_bytes(early)
    index, model = TieredIndex(tmp_path), LetterEmbedder()
    one = HybridRetriever(source, index, model, CalibratedEstimator(), inline_vectors=0)
    recall = await one.recall(question("house3 钥匙", world_id=""))
    assert recall.candidates
    assert "index_loading" in recall.degradations
    await one.feed([SCOPE])
    assert "index_loading" not in (await one.recall(question("house3 钥匙", world_id=""))).degradations
    assert len(model.embedded) < 4, "what another run embedded is not embedded again"
    assert await index.unembedded_ids(SCOPE, "letters", 9) == ()
    await one.close()


async def test_removed_words_leave_no_file(tmp_path):
    await fill(tmp_path)
    file = checkpoint_file(str(tmp_path), SCOPE)
    assert b"house3" in file.read_bytes()
    index = TieredIndex(tmp_path)
    gone = [each.__class__(sequence=41, entry=each.entry, deleted=True) for each in written(talk(1, first=3))]
    await index.add(SCOPE, gone, None)
    assert not file.exists()
    await index.close()
    assert "m3" not in await words(TieredIndex(tmp_path))
    await index.drop(SCOPE)
    assert not file.exists()


class Reduced(ScopeTable):
    """A table from which words are removed while its checkpoint is written."""

    def __init__(self, remove):
        super().__init__()
        self.remove = remove

    def freeze(self):
        frozen = super().freeze()
        from_thread.run(self.remove, SCOPE)
        return frozen


async def test_words_that_are_removed_while_they_are_written_leave_no_file(tmp_path):
    scopes = CheckpointedScopes(str(tmp_path), open_engine, head_start_seconds=0, long_rows=100)
    scopes.begin(SCOPE, "", is_partial=False)
    table = Reduced(scopes.remove)
    table.put(row_batch(written(talk(9)), vectors_of(9), None, "m"))
    await scopes.save(SCOPE, "state", table)
    assert not list(tmp_path.iterdir())
    assert scopes.is_due(SCOPE, 9, is_last=False)
    whole = ScopeTable()
    whole.put(row_batch(written(talk(9)), vectors_of(9), None, "m"))
    await scopes.save(SCOPE, "state", whole)
    assert not scopes.is_due(SCOPE, 9, is_last=False)


async def test_words_that_are_removed_from_a_part_leave_no_file_of_the_whole(tmp_path):
    await fill(tmp_path)
    file = checkpoint_file(str(tmp_path), SCOPE)
    early = await to_thread.run_sync(file.read_bytes)
    late = TieredIndex(tmp_path)
    await late.add(SCOPE, written(talk(10, first=40), first=41), vectors_of(10), model="m")
    await late.close()
    await to_thread.run_sync(file.write_bytes, early)
    index = TieredIndex(tmp_path, head_start_seconds=0.05)
    assert len(await words(index)) == 6
    gone = [each.__class__(sequence=51, entry=each.entry, deleted=True) for each in written(talk(1, first=3))]
    await index.add(SCOPE, gone, None)
    await index.wait_until_whole(SCOPE)
    assert not await to_thread.run_sync(file.exists)
    assert "m3" not in await words(index)
    await index.close()
    assert "m3" not in await words(TieredIndex(tmp_path))


async def test_a_scope_that_another_process_dropped_is_not_written_again(tmp_path):
    await fill(tmp_path)
    index, other = TieredIndex(tmp_path), TieredIndex(tmp_path)
    assert len(await words(index)) == 6
    await other.drop(SCOPE)
    await index.add(SCOPE, written(talk(1, first=40), first=41), vectors_of(1), model="m")
    await index.maintain()
    await index.close()
    assert await TieredIndex(tmp_path).count(SCOPE) == 0


async def test_a_checkpoint_of_a_dropped_generation_is_not_left(tmp_path):
    await fill(tmp_path)
    await TieredIndex(tmp_path).drop(SCOPE)
    table = ScopeTable()
    table.put(row_batch(written(talk(9)), vectors_of(9), None, "m"))
    await to_thread.run_sync(write_checkpoint, str(tmp_path), SCOPE, "state", "of before", table)
    assert not await to_thread.run_sync(checkpoint_file(str(tmp_path), SCOPE).exists)


async def test_a_process_that_still_holds_erased_words_writes_none_of_them(tmp_path):
    await fill(tmp_path)
    late, other = TieredIndex(tmp_path), TieredIndex(tmp_path)
    assert len(await words(late)) == 6
    await other.drop(SCOPE)
    # The same ids and sequences, with other words.
    await other.add(SCOPE, written(talk(40, word="lamp")), vectors_of(40), model="m")
    await other.close()
    await late.add("session:other", written(talk(3)), None)
    await late.maintain()
    await late.close()
    assert await words(TieredIndex(tmp_path), "key") == set()
