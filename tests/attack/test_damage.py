"""One broken thing breaks one thing: a damaged copy of a store is read, or the damage is named, and nothing is silently wrong."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import anyio
from long_form import LongForm
from store_copies import REFUSED, SESSIONS, TURNS, harm_files, harm_sqlite, play_store, read_pieces

from mnemosyne import CalibratedEstimator, ContextEngineError, Message, RetrievalQuery, Role, Store, open_store
from mnemosyne.documents.store_check import check_store
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.schema.memory import session_scope

SHORT = 9
KINDS = ("sqlite", "files", "index")


class _Template:
    """A store that was played once in this process, with its index, and what can be read of it."""

    def __init__(self, kind: str) -> None:
        self._held = tempfile.TemporaryDirectory(prefix="copies-")
        self.folder = Path(self._held.name)
        self.kind = kind
        anyio.run(self._play)

    async def _play(self) -> None:
        await play_store(address_of(self.folder, self.kind))
        store = open_store(address_of(self.folder, self.kind))
        self.pieces = await read_pieces(store)
        assert not store.damage_log.since()
        if self.kind == "index":
            self.found = await search(store, self.folder / "index", sync=True)
            assert self.found[0]
        await store.close()


@cache
def template(kind: str) -> _Template:
    return _Template(kind)


def address_of(folder: Path, kind: str) -> str:
    return f"file:{folder / 'files'}" if kind == "files" else f"sqlite:///{folder / 'store.db'}"


async def search(store: Store, folder: Path, *, sync: bool = False) -> tuple[list[str], tuple[str, ...]]:
    """Return what recall finds by words, with the index in a folder, and its degradations."""
    index = TieredIndex(folder)
    retriever = HybridRetriever(store, index, None, CalibratedEstimator())
    if sync:
        await retriever.sync(session_scope("s1"))
    try:
        head = await store.head("s1")
        query = RetrievalQuery(
            session_id="s1", world_id="", text="question answer memory", lineage=head.lineage, keywords=("question",)
        )
        recall = await retriever.recall(query)
    finally:
        await retriever.close()
    return [f"{each.entry_id} {each.preview}" for each in recall.candidates], recall.degradations


def check(number: int) -> None:
    kind = KINDS[number % len(KINDS)]
    chance = random.Random(f"copies {number}")
    source = template(kind)
    with tempfile.TemporaryDirectory(prefix="copy-") as held:
        folder = Path(held) / "copy"
        shutil.copytree(source.folder, folder)
        if kind == "index":
            harm = harm_files(folder / "index", chance)
            anyio.run(check_index, source, folder, harm.what)
            return
        harm = harm_sqlite(folder / "store.db", chance) if kind == "sqlite" else harm_files(folder / "files", chance)
        anyio.run(check_copy, source, folder, harm.what, allows_older(kind, harm.what))


def allows_older(kind: str, harm: str) -> bool:
    """Return whether the end of a journal was cut off or zeroed, after which it is that of an earlier moment."""
    return kind == "files" and harm.startswith(("cut", "page", "delete"))


async def check_copy(source: _Template, folder: Path, harm: str, may_be_older: bool) -> None:
    store = open_store(address_of(folder, source.kind))
    try:
        found = await read_pieces(store)
        notes = store.damage_log.since()
        named = {note.scope for note in notes}
        faults = [
            f"{scope} {name}: {str(value)[:200]} in place of {str(source.pieces[scope, name])[:200]}"
            for (scope, name), value in found.items()
            if value != source.pieces[scope, name]
            and not is_named(name, value, source.pieces[scope, name], is_noted=bool(named & {scope, ""}))
            and not (may_be_older and is_older(value, source.pieces[scope, name]))
        ]
        assert not faults, f"{harm}: silently wrong: {faults[:3]}"
        differs = any(value != source.pieces[piece] for piece, value in found.items())
        await check_command(store, harm, differs and not may_be_older)
        for session_id in SESSIONS:
            await go_on(store, session_id)
    finally:
        await store.close()


def is_named(name: str, value: Any, before: Any, *, is_noted: bool) -> bool:
    """Return whether a difference is a refusal with its reason, or something left out that a note names.

    Where a whole write of a journal is lost, the state and the list of turns are those without it.
    """
    if isinstance(value, str) and value.startswith(REFUSED):
        return len(value) > len(REFUSED)
    if not is_noted:
        return False
    if name == "turns" and len(value) == len(before):
        # The columns of a turn's row have no checksum of their own: those of its bodies, which include them, name the row.
        return [json.loads(each)[0] for each in value] == [json.loads(each)[0] for each in before]
    if name.startswith(("window state", "state after", "branches")):
        return True
    if isinstance(before, list) and isinstance(value, list):
        rest = iter(before)
        return all(each in rest for each in value)
    return value in (b"null", b"{}")


def is_older(value: Any, before: Any) -> bool:
    if isinstance(before, list) and isinstance(value, list):
        return len(value) <= len(before)
    return True


async def check_command(store: Store, harm: str, differs: bool) -> None:
    """What a reader misses, a check of the store names."""
    try:
        checked = await check_store(store)
    except ContextEngineError:
        return
    assert checked.damage or not differs, f"{harm}: the check found nothing"


async def go_on(store: Store, session_id: str) -> None:
    """Append a turn where that is possible; what was refused is refused with a sentence, and what was written is there."""
    try:
        await store.append_messages(session_id, (Message(role=Role.USER, content="and now?"),))
        window = await store.window(session_id, message_limit=3)
    except ContextEngineError:
        return
    assert window.messages[-1].message.content == "and now?"


async def check_index(source: _Template, folder: Path, harm: str) -> None:
    """Whatever is wrong with an index, recall finds nothing that the store does not hold, or says what is missing."""
    store = open_store(address_of(folder, source.kind))
    try:
        found, degradations = await search(store, folder / "index")
        before, healthy = source.found
        if sorted(found) != sorted(before):
            assert set(degradations) - set(healthy), f"{harm}: {found} in place of {before}"
        assert await read_pieces(store) == source.pieces
        index = TieredIndex(folder / "index")
        retriever = HybridRetriever(store, index, None, CalibratedEstimator())
        await retriever.rebuild(session_scope("s1"))
        await retriever.close()
        again, _ = await search(store, folder / "index")
        assert sorted(again) == sorted(before), f"{harm}: a rebuild does not restore it"
    finally:
        await store.close()


COPIES = LongForm(count=500, check=check, chunk=25)


def test_damaged_copies_are_read_or_named():
    for number in range(SHORT):
        check(number)


def test_every_body_is_checked_in_its_place():
    """A body of another row is noticed in every table: the checksum covers the place."""
    source = template("sqlite")
    assert len(source.pieces) > 7 * TURNS * len(SESSIONS)
    for number in range(8):
        with tempfile.TemporaryDirectory(prefix="copy-") as held:
            folder = Path(held) / "copy"
            shutil.copytree(source.folder, folder)
            harm = harm_sqlite(folder / "store.db", random.Random(f"place {number}"))
            anyio.run(check_copy, source, folder, harm.what, False)


def test_a_damaged_count_of_a_page_does_not_hide_its_rows(tmp_path):
    """A page of the index that turns are listed by says that it holds 256 entries more than it does."""
    folder = tmp_path / "copy"
    shutil.copytree(template("sqlite").folder, folder)
    file = folder / "store.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'turns_on_path'"
        ((page,),) = connection.execute(query).fetchall()
        ((page_bytes,),) = connection.execute("PRAGMA page_size").fetchall()
    data = bytearray(file.read_bytes())
    data[(page - 1) * page_bytes + 3] ^= 1
    file.write_bytes(data)
    anyio.run(check_copy, template("sqlite"), folder, "a count of cells", False)
