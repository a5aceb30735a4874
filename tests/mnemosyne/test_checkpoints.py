"""The durable form of small scopes: a file from which they open as they were, without LanceDB."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import numpy as np
import pytest
from anyio import to_thread
from recall_parts import ALL, SESSION, said, unit, written

from mnemosyne import Chain
from mnemosyne.core.errors import UnreadableError
from mnemosyne.retrieval.engines.checkpoints.array_file import map_arrays, write_arrays
from mnemosyne.retrieval.engines.checkpoints.checkpoint import read_checkpoint, write_checkpoint
from mnemosyne.retrieval.engines.lance.files import checkpoint_file
from mnemosyne.retrieval.engines.rows import batch_of, row_batch
from mnemosyne.retrieval.engines.tables.table import ScopeTable
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.engines.tiers.durable import open_engine
from mnemosyne.schema.memory import staged_scope
from mnemosyne.schema.query import IndexFilter
from mnemosyne.schema.session import BranchSpan

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
    assert write_checkpoint(str(tmp_path), SCOPE, "", table)
    kept = read_checkpoint(str(tmp_path), SCOPE)
    assert kept is not None
    assert looks(kept) == looks(table)
    # It goes on as the first one does, and the file stays as it was.
    for each in (table, kept):
        each.put(row_batch(written(talk(30, first=count), first=count + 10), vectors_of(30, 5), None, "m"))
    assert looks(kept) == looks(table)
    again = read_checkpoint(str(tmp_path), SCOPE)
    assert again is not None
    assert again.count() == count


@pytest.mark.parametrize("count", [2, 60, 1_500])
def test_the_rows_of_a_table_make_the_same_table_again(count):
    table, again = ScopeTable(), ScopeTable()
    table.put(row_batch(written(talk(count)), vectors_of(count), None, "m"))
    table.put(row_batch(written(talk(1, word="lock"), first=count + 1), None, None, ""))
    before = looks(table)
    again.fill(table.stored())
    assert looks(table) == looks(again) == before
    batch = batch_of(again.stored())
    assert len(batch.rows) == count
    assert sorted(batch.rows[-1].tokens) == sorted(
        row_batch(written(talk(1, word="lock")), None, None, "").rows[0].tokens
    )


def test_a_damaged_file_is_noticed(tmp_path):
    table = ScopeTable()
    table.put(row_batch(written(talk(9)), vectors_of(9), None, "m"))
    write_checkpoint(str(tmp_path), SCOPE, "", table)
    file = checkpoint_file(str(tmp_path), SCOPE)
    whole = file.read_bytes()
    assert file.stat().st_mode & 0o077 == 0
    for place in (3, 20, 200, len(whole) // 2, len(whole) - 64):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        # The last bytes may only fill up the last array.
        with suppress(UnreadableError):
            assert read_checkpoint(str(tmp_path), SCOPE)
            assert place == len(whole) - 64
    for end in (0, 10, 30, len(whole) // 2):
        file.write_bytes(whole[:end])
        with pytest.raises(UnreadableError):
            read_checkpoint(str(tmp_path), SCOPE)
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
    assert about == b'"about"'
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
    return set(hits.entry_ids)


def test_a_scope_opens_without_the_engine(tmp_path):
    program = f"""
import sys, anyio
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_checkpoints import fill, words
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
async def main():
    if sys.argv[1] == "fill":
        await fill({str(tmp_path)!r})
        return
    index = TieredIndex({str(tmp_path)!r})
    assert len(await words(index)) == 6
    assert await words(TieredIndex({str(tmp_path)!r} + "/new")) == set()
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
    assert len(index.faults()) == 1
    await to_thread.run_sync(file.rmdir)
    await index.maintain()
    assert (await to_thread.run_sync(read_checkpoint, str(tmp_path), SCOPE)).count() == 40
    assert index.faults() == ()
    # Once it is there, it is not written again.
    written_at = (await to_thread.run_sync(file.stat)).st_mtime_ns
    await index.maintain()
    assert (await to_thread.run_sync(file.stat)).st_mtime_ns == written_at
    await index.close()


async def test_the_file_is_written_again_behind_the_turn_that_removes_words(tmp_path):
    await fill(tmp_path)
    file = checkpoint_file(str(tmp_path), SCOPE)
    index = TieredIndex(tmp_path)
    gone = [each.__class__(sequence=41, entry=each.entry, deleted=True) for each in written(talk(1, first=3))]
    await index.add(SCOPE, gone, None)
    await index.evict()
    left = await to_thread.run_sync(read_checkpoint, str(tmp_path), SCOPE)
    assert (left.count(), len(left.freeze().ids)) == (39, 39)
    assert "m3" not in await words(TieredIndex(tmp_path))
    await index.drop(SCOPE)
    await index.close()
    assert not file.exists()


async def test_a_table_of_lancedb_of_an_earlier_release_becomes_a_file_with_all_its_vectors(tmp_path):
    former = await to_thread.run_sync(open_engine, str(tmp_path))
    await former.write(SCOPE, row_batch(written(talk(40)), vectors_of(40), None, "m"))
    await former.close()
    index = TieredIndex(tmp_path)
    assert len(await words(index)) == 6
    await index.close()
    assert [each.suffix for each in tmp_path.iterdir() if not each.name.startswith(".")] == [".checkpoint"]
    again = TieredIndex(tmp_path)
    assert len(await words(again)) == 6
    assert await again.unembedded_ids(SCOPE, "m", 9) == ()
    await again.close()


async def test_a_process_that_dies_while_a_scope_moves_to_lancedb_loses_nothing(tmp_path):
    await fill(tmp_path)
    # It had written a part of the rows.
    torn = await to_thread.run_sync(open_engine, str(tmp_path))
    await torn.write(SCOPE, row_batch(written(talk(9)), vectors_of(9), None, "m"))
    await torn.close()
    index = TieredIndex(tmp_path, memory_rows=20)
    assert (await index.engine_of(SCOPE), await index.count(SCOPE)) == ("memory", 40)
    await index.maintain()
    assert (await index.engine_of(SCOPE), await index.count(SCOPE)) == ("disk", 40)
    await index.close()
    again = TieredIndex(tmp_path, memory_rows=20)
    assert (await again.engine_of(SCOPE), await again.count(SCOPE)) == ("disk", 40)
    assert len(await words(again)) == 6
    assert await again.unembedded_ids(SCOPE, "m", 9) == ()
    await again.close()


async def test_a_scope_that_another_process_dropped_is_not_written_again(tmp_path):
    await fill(tmp_path)
    index, other = TieredIndex(tmp_path), TieredIndex(tmp_path)
    assert len(await words(index)) == 6
    await other.drop(SCOPE)
    await index.add(SCOPE, written(talk(1, first=40), first=41), vectors_of(1), model="m")
    await index.maintain()
    await index.close()
    assert await TieredIndex(tmp_path).count(SCOPE) == 0


async def test_a_scope_that_another_process_dropped_before_there_was_a_folder_is_not_written(tmp_path):
    index, other = TieredIndex(tmp_path / "index"), TieredIndex(tmp_path / "index")
    await index.add(SCOPE, written(talk(9)), vectors_of(9), model="m")
    await other.drop(SCOPE)
    await index.close()
    assert await TieredIndex(tmp_path / "index").count(SCOPE) == 0


async def test_a_staged_scope_that_another_process_dropped_takes_no_place(tmp_path):
    await fill(tmp_path)
    index, other = TieredIndex(tmp_path), TieredIndex(tmp_path)
    assert await index.count(SCOPE)
    await index.add(staged_scope(SCOPE), written(talk(40)), vectors_of(40), model="n")
    await other.drop(SCOPE)
    await index.adopt(SCOPE, staged_scope(SCOPE))
    assert await index.count(SCOPE) == 0
    await index.close()
    assert await TieredIndex(tmp_path).count(SCOPE) == 0


async def test_a_checkpoint_of_a_dropped_generation_is_not_left(tmp_path):
    await fill(tmp_path)
    await TieredIndex(tmp_path).drop(SCOPE)
    table = ScopeTable()
    table.put(row_batch(written(talk(9)), vectors_of(9), None, "m"))
    assert not await to_thread.run_sync(write_checkpoint, str(tmp_path), SCOPE, "of before", table)
    assert not await to_thread.run_sync(checkpoint_file(str(tmp_path), SCOPE).exists)


class LateTable:
    """A table whose scope is dropped by another index after its writer has read the generation, and before the file is there."""

    def __init__(self, table, other):
        self._frozen, self._other = table.freeze(), other

    def freeze(self):
        return self

    def __getattr__(self, name):
        if name == "arrays":
            anyio.from_thread.run(self._other.drop, SCOPE)
        return getattr(self._frozen, name)


async def test_a_file_that_is_written_while_its_scope_is_dropped_is_read_by_nobody(tmp_path):
    table, file = ScopeTable(), checkpoint_file(str(tmp_path), SCOPE)
    table.put(row_batch(written(talk(3)), vectors_of(3), None, "m"))
    other = TieredIndex(tmp_path)
    assert await to_thread.run_sync(write_checkpoint, str(tmp_path), SCOPE, "", table)
    late = file.read_bytes()
    assert not await to_thread.run_sync(write_checkpoint, str(tmp_path), SCOPE, "", LateTable(table, other))
    assert not file.exists()
    file.write_bytes(late)  # As it is before its writer reads the generation again.
    assert await other.count(SCOPE) == 0
    await other.close()


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
