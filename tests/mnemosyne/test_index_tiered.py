"""The folder under the memory: reopening, damage, growth past memory, two processes' worth of handles."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from recall_parts import SESSION, WORLD, entry, unit, where, written

from mnemosyne import Chain, MemoryEntry
from mnemosyne.core.errors import IndexUnavailableError
from mnemosyne.retrieval.engines.lance.index import LanceIndex
from mnemosyne.retrieval.engines.rows import RowBatch, row_batch
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.schema.query import TextSearch
from mnemosyne.schema.record import SequencedEntry

pytestmark = pytest.mark.anyio

MANY = [entry(f"e{number}", f"the {number}th key of house{number % 7} 钥匙") for number in range(40)]
VECTORS = unit([[1.0, float(number)] for number in range(40)])


async def test_what_was_closed_is_there_again(tmp_path: Path) -> None:
    first = TieredIndex(tmp_path)
    await first.add(WORLD, written(MANY), VECTORS, model="m")
    before = await first.search_text("house3 钥匙", where(), 9)
    nearest = await first.search_vector(VECTORS[5], where(), 9, model="m")
    await first.close()
    second = TieredIndex(tmp_path)
    assert await second.search_text("house3 钥匙", where(), 9) == before
    assert await second.search_vector(VECTORS[5], where(), 9, model="m") == nearest
    assert await second.watermark(WORLD, Chain.LORE) == 40
    assert await second.unembedded_ids(WORLD, "m", 9) == ()
    await second.add(WORLD, [SequencedEntry(sequence=41, entry=MANY[3], deleted=True)], None)
    await second.close()
    third = TieredIndex(tmp_path)
    assert await third.count(WORLD) == 39
    await third.close()


IMPORTED = """
import sys
import anyio
from mnemosyne.retrieval.engines.tiered_index import TieredIndex

async def main():
    index = TieredIndex(sys.argv[1])
    assert "lancedb" not in sys.modules
    await index.warm()
    print("lancedb" in sys.modules)
    await index.close()

anyio.run(main)
"""


@pytest.mark.parametrize(("memory_rows", "imported"), [(25, "True"), (250, "False")])
async def test_a_warm_index_has_imported_lancedb_if_a_scope_is_large(
    tmp_path: Path, memory_rows: int, imported: str
) -> None:
    index = TieredIndex(tmp_path, memory_rows=memory_rows)
    await index.add(WORLD, written(MANY), VECTORS, model="m")
    await index.maintain()
    await index.close()
    done = await anyio.run_process(
        [sys.executable, "-c", IMPORTED, str(tmp_path)], stderr=subprocess.STDOUT, check=False
    )
    assert done.stdout.decode().strip() == imported


async def test_a_crash_loses_only_what_the_store_still_has(tmp_path: Path) -> None:
    crashed = TieredIndex(tmp_path, held_rows=30)
    await crashed.add(WORLD, written(MANY[:30]), None)
    await crashed.evict()
    await crashed.add(WORLD, written(MANY[30:], 31), None)
    await crashed.evict()
    reopened = TieredIndex(tmp_path)
    assert await reopened.watermark(WORLD, Chain.LORE) == 30
    await reopened.add(WORLD, written(MANY[30:], 31), None)
    assert await reopened.count(WORLD) == 40
    await reopened.close()


async def test_a_scope_that_outgrows_memory_moves_to_disk(tmp_path: Path) -> None:
    index = TieredIndex(tmp_path, memory_rows=25)
    await index.add(WORLD, written(MANY), VECTORS, model="m")
    in_memory = await index.search_text("house3", where(), 9)
    await index.maintain()
    on_disk = await index.search_text("house3", where(), 9)
    assert on_disk.entry_ids == in_memory.entry_ids
    await index.add(WORLD, written([entry("new", "house3 again")], 41), VECTORS[:1], model="m")
    assert "new" in (await index.search_text("house3", where(), 9)).entry_ids
    assert await index.count(WORLD) == 41
    assert index.faults() == ()
    await index.close()


async def test_old_scopes_leave_memory_and_come_back(tmp_path: Path) -> None:
    index = TieredIndex(tmp_path, open_scopes=2)
    for number in range(5):
        await index.add(f"world:{number}", written([entry(f"e{number}", "a key", scope=f"world:{number}")]), None)
    await index.maintain()
    for number in range(5):
        assert (await index.search_text("key", where(f"world:{number}"), 3)).entry_ids == (f"e{number}",)
    await index.close()


@pytest.mark.parametrize(
    ("limit", "left"), [({"open_scopes": 2}, 2), ({"open_rows": 3}, 3), ({"open_rows": 0}, 1), ({}, 5)]
)
async def test_scopes_used_longest_ago_leave_memory_with_what_they_had_not_written(
    tmp_path: Path, limit: dict[str, int], left: int
) -> None:
    scopes = [f"world:{number}" for number in range(5)]
    index = TieredIndex(tmp_path, **limit)
    for scope in scopes:
        await index.add(scope, written([entry(f"of {scope}", "a key", scope=scope)]), None)
    await index.evict()
    assert index.held_in_memory() == tuple(scopes[5 - left :])
    found = await index.search_texts([TextSearch("key", where(scope), 3) for scope in scopes])
    assert [hits.entry_ids for hits in found] == [(f"of {scope}",) for scope in scopes]
    await index.close()


@pytest.mark.parametrize("tier", [{}, {"memory_rows": 5}], ids=["memory", "large"])
@pytest.mark.parametrize("harm", ["truncate", "garbage", "no_data", "file"])
async def test_a_damaged_folder_is_named_and_recall_goes_on(tmp_path: Path, harm: str, tier: dict[str, int]) -> None:
    folder = tmp_path / "index"
    whole = TieredIndex(folder, **tier)
    await whole.add(WORLD, written(MANY), VECTORS, model="m")
    await whole.maintain()
    await whole.close()
    damage(folder, harm)
    index = TieredIndex(folder, **tier)
    assert not await index.search_text("house3", where(), 9)
    assert await index.watermark(WORLD, Chain.LORE) == 0
    if tier or harm != "no_data":
        assert any(str(folder) in fault and "Nothing of the session is lost" in fault for fault in index.faults())
    await index.add(WORLD, written(MANY), VECTORS, model="m")
    assert len(await index.search_text("house3", where(), 9)) == 6
    assert (await index.search_vector(VECTORS[5], where(), 1, model="m")).entry_ids == ("e5",)
    await index.maintain()
    await index.close()
    shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
    again = TieredIndex(folder, **tier)
    await again.add(WORLD, written(MANY), VECTORS, model="m")
    await again.close()
    assert await TieredIndex(folder, **tier).count(WORLD) == 40


def damage(folder: Path, harm: str) -> None:
    if harm == "file":
        shutil.rmtree(folder)
        folder.write_text("not a folder")
        return
    files = [*folder.glob("*.lance/data/*.lance"), *folder.glob("*.checkpoint")]
    assert files
    for file in files:
        if harm == "no_data":
            file.unlink()
        elif harm == "truncate":
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        else:
            file.write_bytes(b"\x00rubbish" * 40)


async def test_a_folder_lost_while_in_use_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    index = TieredIndex(folder, memory_rows=-1, delta_rows=0)
    await index.add(WORLD, written(MANY), VECTORS, model="m")
    assert len(await index.search_vector(VECTORS[5], where(), 9, model="m")) == 9
    shutil.rmtree(folder)
    assert not await index.search_vector(VECTORS[5], where(), 9, model="m")
    assert index.faults()
    await index.add(WORLD, written(MANY), VECTORS, model="m")
    assert len(await index.search_text("house3", where(), 9)) == 6
    await index.close()


def rows(entries: list[MemoryEntry], first: int = 1) -> RowBatch:
    return row_batch(written(entries, first), None, None, "")


async def test_two_handles_see_each_other(tmp_path: Path) -> None:
    one, other = LanceIndex(str(tmp_path)), LanceIndex(str(tmp_path))
    await one.write(WORLD, rows(MANY[:5]))
    assert await other.count(WORLD) == 5
    await one.write(WORLD, rows(MANY[5:9], 6))
    assert await other.count(WORLD) == 9
    await other.write(WORLD, rows(MANY[3:12], 4))
    assert await one.count(WORLD) == 12
    await one.close()
    await other.close()


async def test_many_small_writes_are_tidied(tmp_path: Path) -> None:
    index = LanceIndex(str(tmp_path), tidy_writes=8)
    for number, each in enumerate(MANY[:20], 1):
        await index.write(WORLD, rows([each], number))
    before = data_files(tmp_path)
    await index.maintain()
    assert before >= 20
    stored = await index.load(WORLD)
    assert stored is not None
    assert list(stored.ids) == [each.entry_id for each in MANY[:20]]
    await index.close()


def data_files(folder: Path) -> int:
    return len(list(folder.glob("*.lance/data/*.lance")))


async def test_lancedb_failures_have_one_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(IndexUnavailableError, match="file"):
        await LanceIndex(str(tmp_path / "file")).write(WORLD, rows(MANY))


class FillingLance(LanceIndex):
    """Has no space left once `is_full` is set."""

    is_full = False

    async def write(self, scope: str, batch: RowBatch) -> None:
        if self.is_full:
            raise IndexUnavailableError("the folder", scope, "no space left")
        await super().write(scope, batch)


async def test_a_fault_of_new_rows_is_the_scopes_and_gone_with_it(tmp_path: Path) -> None:
    lance = FillingLance(str(tmp_path))
    index = TieredIndex(tmp_path, memory_rows=5, held_rows=2, durable=lance)
    await index.add(WORLD, written(MANY), None)
    await index.maintain()
    lance.is_full = True
    await index.add(WORLD, written([entry("new1", "house3"), entry("new2", "house3")], 41), None)
    assert "no space left" in index.faults()[0]
    assert "\n" not in index.faults()[0]
    assert "new2" in (await index.search_text("house3", where(), 9)).entry_ids
    await index.drop(WORLD)
    assert index.faults() == ()
    await index.close()


class SlowLance(LanceIndex):
    """Prepares a scope once it may."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.begun, self.may_end, self.calls = anyio.Event(), anyio.Event(), list[str]()

    async def prepare(self, scope: str) -> None:
        self.calls.append(scope)
        self.begun.set()
        await self.may_end.wait()
        await super().prepare(scope)


async def test_while_one_settles_others_do_not_wait(tmp_path: Path) -> None:
    lance = SlowLance(str(tmp_path))
    index = TieredIndex(tmp_path, memory_rows=5, durable=lance)
    await index.add(WORLD, written(MANY), None)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(index.maintain)
            await lance.begun.wait()
            await index.add(SESSION, written([entry("e1", "a key", Chain.HISTORY)]), None)
            await index.maintain()
            assert await TieredIndex(tmp_path).count(SESSION) == 1
            lance.may_end.set()
    assert lance.calls == [WORLD]
    assert await index.engine_of(WORLD) == "disk"
    await index.close()
