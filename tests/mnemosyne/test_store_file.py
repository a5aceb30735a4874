"""Files of a file store: torn lines, damage, processes, what reaches the disk, erasures cut off half way."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from filelock import FileLock

from mnemosyne import Erasure, FileStore, StoreUnavailableError
from mnemosyne.core.errors import StoreBusyError
from mnemosyne.testing.stores.samples import (
    AT,
    SESSION,
    block,
    document_of,
    imported_turn,
    play,
    read_everything,
    reply_message,
    start,
    user_message,
)

pytestmark = pytest.mark.anyio
APPENDS = 40
ROOT = Path(__file__).parents[2]


def journal_of(folder: Path) -> Path:
    (found,) = folder.glob("*/sessions/*.jsonl")
    return found


def files_of(folder: Path, name: str = "*") -> list[Path]:
    return [path for path in folder.rglob(name) if path.is_file()]


async def begun(folder: Path, **settings: Any) -> FileStore:
    store = FileStore(folder, **settings)
    await store.create_session(start(imported_turn("p001")))
    return store


async def test_a_line_can_be_read_by_eye(tmp_path: Path) -> None:
    store = await begun(tmp_path)
    await store.append_messages(SESSION, (user_message("钥匙在哪里？"),))
    header, first, second = map(json.loads, journal_of(tmp_path).read_text(encoding="utf-8").splitlines())
    assert (header["format"], header["scope"]) == (3, "session:s1")
    assert (first["n"], first["did"], second["n"], second["did"]) == (1, "create_session", 2, "append_messages")
    assert "钥匙在哪里？" in journal_of(tmp_path).read_text(encoding="utf-8")


@pytest.mark.parametrize("fresh", [True, False])
async def test_a_torn_last_line_was_never_written(tmp_path: Path, fresh: bool) -> None:
    """Cut off at every byte: what was acknowledged before stays, and the next write goes on from there."""
    await play(await begun(tmp_path), "t1", 5)
    data = journal_of(tmp_path).read_bytes()
    played = len(data)
    last = data.rindex(b"\n", 0, -1) + 1
    places = sorted({last, last + 1, (last + played) // 2, played - 2, played - 1})
    for cut in places:
        journal_of(tmp_path).write_bytes(data[:last])
        reader = FileStore(tmp_path)
        if not fresh:
            await reader.head(SESSION)
        journal_of(tmp_path).write_bytes(data[:cut])
        window = await reader.window(SESSION, message_limit=9)
        assert (window.head.depth, window.pending is not None) == (1, True)
        done = await reader.append_messages(SESSION, (user_message("next"),))
        assert done.version == window.head.version + 1
        assert (await FileStore(tmp_path).get_session(SESSION)) == await reader.get_session(SESSION)
        assert journal_of(tmp_path).read_bytes().endswith(b"\n")


async def test_damage_is_named_by_file_and_line(tmp_path: Path) -> None:
    store = await begun(tmp_path)
    for number in range(3):
        await store.append_messages(SESSION, (user_message(f"m{number}"),))
    path = journal_of(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    for number, said, broken in (
        (1, ["m0", "m1", "m2"], [b"{}\n", *lines[1:]]),
        (3, ["m1", "m2"], [*lines[:2], b'{"n": 2, "did"\n', *lines[3:]]),
        (3, ["m1", "m2"], [*lines[:2], *lines[3:]]),
        (3, ["m0", "m1", "m2"], [*lines[:2], lines[1], *lines[2:]]),
        (3, ["m1", "m2"], [*lines[:2], lines[2].replace(b'"m0"', b'"n0"'), *lines[3:]]),
    ):
        path.write_bytes(b"".join(broken))
        store = FileStore(tmp_path)
        assert await _said(store) == said
        note = next(note for note in store.damage_log.since() if note.what == f"Line {number} of {path.name}")
        assert str(path.parent) in note.sentence
        await store.append_messages(SESSION, (user_message("x"),))
        assert path.read_bytes().startswith(b"".join(broken)), "the damaged lines stay as they are"
        assert await _said(FileStore(tmp_path)) == [*said, "x"]
    path.write_bytes(b"".join(lines[:3]))
    assert (await FileStore(tmp_path).head(SESSION)).depth == 2, "the lines before the damage can be gone back to"


async def _said(store: FileStore) -> list[str]:
    window = await store.window(SESSION, message_limit=99)
    return [content for placed in window.messages if (content := placed.message.content)[:1] in "mx"]


async def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    await begun(tmp_path)
    path = journal_of(tmp_path)
    newer = re.sub(rb',"sum":[0-9]+}', b"}", path.read_bytes().replace(b'"format":3', b'"format":9', 1), count=1)
    path.write_bytes(newer)
    with pytest.raises(StoreUnavailableError, match="newer release"):
        await FileStore(tmp_path).head(SESSION)


async def test_a_journal_that_has_doubled_is_written_anew(tmp_path: Path) -> None:
    """Readers in other stores follow, and nothing changes for them."""
    store = await begun(tmp_path, compact_bytes=4_000)
    reader = FileStore(tmp_path)
    generations, sizes = set(), []
    for number in range(60):
        await store.put_session(SESSION, _told(number))
        assert await reader.get_session(SESSION) == await store.get_session(SESSION)
        header, *_ = journal_of(tmp_path).read_bytes().splitlines()
        generations.add(json.loads(header)["generation"])
        sizes.append(journal_of(tmp_path).stat().st_size)
    assert len(generations) > 2
    assert max(sizes) < 60 * 400
    assert await read_everything(FileStore(tmp_path)) == await read_everything(store)
    assert not files_of(tmp_path, "*.new")


def _told(number: int) -> Any:
    document = document_of(user_message("ask p001"), reply_message("tell p001"))
    return replace(document, context_blocks=(block("k", content=f"{number} " * 40),))


async def test_what_is_acknowledged_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write is synced with its length before it returns; a new file, its folder too. NORMAL leaves it to the system."""
    synced: list[tuple[int, int]] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        stat = os.fstat(handle)
        synced.append((stat.st_ino, stat.st_size))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    store = await begun(tmp_path)
    path = journal_of(tmp_path)
    assert (path.stat().st_ino, path.stat().st_size) in synced
    assert path.parent.stat().st_ino in {inode for inode, _ in synced}
    for number in range(3):
        synced.clear()
        await store.append_messages(SESSION, (user_message(f"m{number}"),))
        assert synced == [(path.stat().st_ino, path.stat().st_size)]
    synced.clear()
    quick = FileStore(tmp_path, synchronous="NORMAL")
    await quick.append_messages(SESSION, (user_message("quick"),))
    assert synced == []


async def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await begun(tmp_path)
    before, shown = journal_of(tmp_path).read_bytes(), await read_everything(store)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(StoreUnavailableError, match="No space left"):
            await store.append_messages(SESSION, (user_message("lost"),))
    assert journal_of(tmp_path).read_bytes() == before
    assert await read_everything(store) == shown
    await store.append_messages(SESSION, (user_message("kept"),))
    assert (await store.head(SESSION)).depth == 2


async def test_a_lock_that_stays_is_said_to_be_busy_and_reading_goes_on(tmp_path: Path) -> None:
    store = await begun(tmp_path, busy_seconds=0.05)
    (lock,) = files_of(tmp_path, "lock")
    with FileLock(lock):
        with pytest.raises(StoreBusyError, match=r"0\.05 s"):
            await store.append_messages(SESSION, (user_message("x"),))
        assert (await store.head(SESSION)).depth == 1
    assert (await store.append_messages(SESSION, (user_message("x"),))).version == 2


_WRITER = """
import sys
import anyio
from mnemosyne import Message, Role
from mnemosyne import FileStore

async def work(folder, name, count):
    store = FileStore(folder, busy_seconds=60.0, compact_bytes=8_000)
    for number in range(int(count)):
        await store.append_messages("s1", (Message(role=Role.USER, content=f"{name} {number}"),))

anyio.run(work, *sys.argv[1:])
"""


async def test_two_processes_take_turns(tmp_path: Path) -> None:
    """While the journal is compacted under them; nothing is lost, doubled or out of a writer's order."""
    store = await begun(tmp_path, compact_bytes=8_000)

    async def write(name: str) -> None:
        command = [sys.executable, "-c", _WRITER, str(tmp_path), name, str(APPENDS)]
        await anyio.run_process(command, cwd=ROOT, stderr=None)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(write, "a")
            group.start_soon(write, "b")
    window = await store.window(SESSION, message_limit=999)
    said = [placed.message.content for placed in window.messages][2:]
    for name in ("a", "b"):
        assert [text for text in said if text.startswith(name)] == [f"{name} {number}" for number in range(APPENDS)]
    assert (window.head.depth, window.head.version) == (1 + 2 * APPENDS, 1 + 2 * APPENDS)


class _CutError(Exception):
    """A process that ended right there."""


@pytest.mark.parametrize("step", range(6))
async def test_an_erasure_that_is_cut_off_is_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """It ends before, between and after the files take their places; whoever comes next finds one or the other."""
    store = await begun(tmp_path)
    await store.append_messages(SESSION, (user_message("the word is sesame, friend of friends"),))
    await store.create_session(start(imported_turn("p001"), session_id="s2"))
    before = await read_everything(store, "s2")
    calls, real = 0, os.replace

    def replace_file(new: Path, old: Path) -> None:
        nonlocal calls
        if calls == step:
            raise _CutError
        calls += 1
        real(new, old)
        if calls == step:
            raise _CutError

    with monkeypatch.context() as cut:
        cut.setattr(os, "replace", replace_file)
        with contextlib.suppress(_CutError):
            await store.erase(Erasure(at=AT, session_id=SESSION))
    other = FileStore(tmp_path)
    gone = await other.get_session(SESSION) is None
    assert gone is (len(await other.audits()) == 1)
    assert gone is (await other.find_text(("the word is sesame",)) == ())
    assert (await read_everything(other, "s2"))[:-2] == before[:-2]
    await other.append_messages("s2", (user_message("go on"),))
    await other.erase(Erasure(at=AT, session_id=SESSION))
    assert await other.sessions() == ("s2",)
    left = b"".join(path.read_bytes() for path in files_of(tmp_path))
    assert b"sesame" not in left


async def test_stores_that_begin_one_folder_at_the_same_moment_all_write(tmp_path: Path) -> None:
    for attempt in range(10):
        stores = [FileStore(tmp_path / str(attempt)) for _ in range(8)]
        async with anyio.create_task_group() as group:
            for number, store in enumerate(stores):
                group.start_soon(store.create_session, replace(start(imported_turn("p001")), session_id=f"s{number}"))
        assert await stores[0].sessions() == tuple(f"s{number}" for number in range(8))


async def test_the_cache_may_be_deleted_while_a_store_is_open(tmp_path: Path) -> None:
    store = await begun(tmp_path)
    await play(store, "t1", 5)
    shown = await read_everything(store)
    for path in files_of(tmp_path, ".cache.db*"):
        path.unlink()
    other = FileStore(tmp_path)
    assert await read_everything(other) == shown
    await other.append_messages(SESSION, (user_message("of the other"),))
    await store.append_messages(SESSION, (user_message("of the first"),))
    assert [*await _contents(store)][-2:] == [*await _contents(other)][-2:] == ["of the other", "of the first"]


async def _contents(store: FileStore) -> list[str]:
    return [placed.message.content for placed in (await store.window(SESSION, message_limit=99)).messages]


async def test_a_line_whose_writer_ended_before_the_cache_had_it_is_read_by_the_next(tmp_path: Path) -> None:
    store = await begun(tmp_path)
    await store.close()
    earlier = {path: path.read_bytes() for path in files_of(tmp_path, ".cache.db*")}
    store = FileStore(tmp_path)
    await store.append_messages(SESSION, (user_message("on the disk"),))
    await store.close()
    for path in files_of(tmp_path, ".cache.db*"):
        path.unlink()
    for path, data in earlier.items():
        path.write_bytes(data)
    other = FileStore(tmp_path)
    await other.append_messages(SESSION, (user_message("behind it"),))
    assert (await _contents(other))[-2:] == ["on the disk", "behind it"]
    assert await read_everything(FileStore(tmp_path)) == await read_everything(other)


async def test_damage_of_the_cache_is_mended_from_the_journals(tmp_path: Path) -> None:
    store = await begun(tmp_path)
    await play(store, "t1", 5)
    shown = await read_everything(store)
    await store.close()
    (cache,) = files_of(tmp_path, ".cache.db")
    cache.write_bytes(b"no database" * 500)
    assert await read_everything(FileStore(tmp_path)) == shown
