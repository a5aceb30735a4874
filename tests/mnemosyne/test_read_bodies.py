"""Values of stored bodies that are kept: known by their bytes, bounded, right beside other writers, gone with an erasure."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "attack"))

from raw_search import bytes_of_object

from mnemosyne import Erasure, PostgresStore, SqliteStore
from mnemosyne.stores.sql.read_bodies import BodyCache, ReadBodies
from mnemosyne.testing.stores.samples import AT, SESSION, imported_turn, play, start

STORES = ("sqlite", "postgresql")


@asynccontextmanager
async def two_stores(kind, tmp_path, request):
    """Yield two stores on one database, as two processes open it."""
    if kind == "sqlite":
        stores = [SqliteStore(tmp_path / "s.sqlite") for _ in range(2)]
    else:
        url = request.getfixturevalue("postgres_url")
        stores = [PostgresStore(url) for _ in range(2)]
    try:
        yield stores
    finally:
        for store in stores:
            await store.close()


def test_a_body_is_known_by_all_of_its_bytes():
    kept = ReadBodies()
    kept.keep("here", b"one", 3, "value")
    assert kept.find("here", b"one") == "value"
    assert kept.find("here", b"two") is None
    assert kept.find("there", b"one") is None
    kept.keep("here", b"two", 3, "other")
    assert (kept.find("here", b"one"), kept.find("here", b"two")) == (None, "other")


def test_what_was_read_last_is_kept_up_to_a_limit():
    kept = ReadBodies(most_bytes=40)
    for place in "abcd":
        kept.keep(place, b"x", 10, place)
    assert kept.find("a", b"x") == "a"
    kept.keep("e", b"x", 10, "e")
    assert [kept.find(place, b"x") for place in "abcde"] == ["a", None, "c", "d", "e"]
    kept.keep("large", b"x", 11, "large")
    assert kept.find("large", b"x") is None, "one value would take the room of all others"


def test_what_began_before_it_is_cleared_keeps_nothing():
    cache = BodyCache()
    before = cache.current
    before.keep("a", b"x", 1, "a")
    cache.clear()
    before.keep("b", b"x", 1, "b")
    assert [kept.find(place, b"x") for kept in (before, cache.current) for place in "ab"] == [None] * 4


@pytest.mark.anyio
@pytest.mark.parametrize("kind", STORES)
async def test_what_another_process_writes_is_read_at_once(kind, tmp_path, request):
    async with two_stores(kind, tmp_path, request) as (mine, other):
        await mine.create_session(start(imported_turn("t1", "as it was")))
        await play(mine, "t2", 5)
        for _ in range(2):
            window = await mine.window(SESSION, message_limit=10)
        document = await other.get_session(SESSION)
        said = [replace(each, content=f"{each.content}, changed") for each in document.session.messages]
        await other.put_session(SESSION, replace(document, session=replace(document.session, messages=tuple(said))))
        seen = await mine.window(SESSION, message_limit=10)
        assert [each.message.content for each in seen.messages] == [each.content for each in said]
        await play(other, "t3", 9)
        assert (await mine.window(SESSION, message_limit=10)).state != window.state
        assert (await mine.turn(SESSION, "t3")) == (await other.turn(SESSION, "t3"))


@pytest.mark.anyio
@pytest.mark.parametrize("kind", STORES)
async def test_what_is_erased_is_not_kept(kind, tmp_path, request):
    async with two_stores(kind, tmp_path, request) as (store, _):
        await store.create_session(start(imported_turn("t1", "a secret of the mill, told to nobody")))
        await store.window(SESSION, message_limit=10)
        assert any(b"secret of the mill" in data for data in bytes_of_object(store))
        await store.erase(Erasure(at=AT, session_id=SESSION))
        assert not any(b"secret of the mill" in data for data in bytes_of_object(store))
