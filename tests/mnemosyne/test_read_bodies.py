"""Values of stored bodies that are kept: known by their bytes, bounded, right beside other writers, gone with an erasure."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "attack"))

from raw_search import bytes_of_object, objects_in

from mnemosyne import Erasure, EvidenceFilter, EvidenceType, Message, PostgresStore, Role, SqliteStore
from mnemosyne.schema.session import WindowMessage
from mnemosyne.stores.sql.read_bodies import (
    MOST_SCOPES,
    MOST_STATES,
    BodyCache,
    ReadBodies,
    ReadMessages,
    ScopeMark,
    ScopeReads,
)
from mnemosyne.testing.stores.samples import (
    AT,
    SCOPE,
    SESSION,
    WORLD_SCOPE,
    evidence,
    imported_turn,
    lore,
    memory,
    play,
    prepared_turn,
    start,
)

STORES = ("sqlite", "postgresql")
NEWEST = EvidenceFilter(types=frozenset({EvidenceType.RAG_DOC}), limit=3, newest=True)


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


def names(found):
    return None if found is None else [f"{each.evidence_id}={each.content}" for each in found]


def test_a_list_of_evidence_goes_along_with_turns_of_its_store_alone():
    kept = ScopeReads()
    kept.keep_evidences(SCOPE, (7, 4), NEWEST, (evidence("a"), evidence("b")))
    assert names(kept.find_evidences(SCOPE, (7, 4), NEWEST)) == ["a=a", "b=b"]
    kept.follow(
        SCOPE,
        7,
        4,
        5,
        [evidence("b", "new"), evidence("c"), evidence("d"), evidence("r", type=EvidenceType.OTHER)],
        {"b"},
    )
    assert kept.find_evidences(SCOPE, (7, 4), NEWEST) is None, "what it was before"
    assert names(kept.find_evidences(SCOPE, (7, 5), NEWEST)) == ["b=new", "c=c", "d=d"]
    kept.follow(SCOPE, 7, 3, 4, [evidence("late")])
    kept.keep_evidences(SCOPE, (7, 4), NEWEST, ())
    assert names(kept.find_evidences(SCOPE, (7, 5), NEWEST)) == ["b=new", "c=c", "d=d"], (
        "a slow reader and a slow writer"
    )
    kept.follow(SCOPE, 7, 5, 6, [])
    assert names(kept.find_evidences(SCOPE, (7, 6), NEWEST)) == ["b=new", "c=c", "d=d"]
    assert kept.find_evidences(SCOPE, (7, 8), NEWEST) is None, "another process wrote"
    assert kept.find_evidences(SCOPE, (8, 6), NEWEST) is None


@pytest.mark.parametrize(
    ("after", "written", "replaced"),
    [
        (5, [evidence("old")], {"old"}),
        (5, [evidence("a", type=EvidenceType.OTHER)], {"a"}),
        (6, [], set()),
        (4, [evidence("a", "again")], {"a"}),
    ],
    ids=["in the place of one that is not listed", "listed no more", "two versions later", "no new version"],
)
def test_what_only_the_database_can_tell_is_read_again(after, written, replaced):
    kept = ScopeReads()
    kept.keep_evidences(SCOPE, (7, 4), NEWEST, (evidence("a"),))
    kept.keep_state(SCOPE, (7, 4), "t1", {"gold": 1}, 10)
    kept.follow(SCOPE, 7, 4, after, written, replaced)
    assert [kept.find_evidences(SCOPE, (7, version), NEWEST) for version in (4, 5, 6)] == [None] * 3
    assert kept.find_state(SCOPE, (7, after), "t1") is None


def test_only_lists_of_the_newest_are_kept():
    kept = ScopeReads()
    for where in (
        EvidenceFilter(),
        replace(NEWEST, limit=None),
        replace(NEWEST, newest=False),
        replace(NEWEST, since=AT),
    ):
        kept.keep_evidences(SCOPE, (7, 4), where, (evidence("a"),))
        assert kept.find_evidences(SCOPE, (7, 4), where) is None


def test_what_is_kept_is_of_the_sessions_that_were_read_last():
    kept = ScopeReads()
    for key in range(MOST_SCOPES + 1):
        kept.keep_state(str(key), (key, 4), "t1", {"gold": key}, 1)
    assert kept.find_state("0", (0, 4), "t1") is None
    assert [kept.find_state(str(key), (key, 4), "t1") for key in (1, MOST_SCOPES)] == [
        {"gold": 1},
        {"gold": MOST_SCOPES},
    ]


def test_what_is_kept_of_sessions_is_bounded():
    kept = ScopeReads(most_bytes=2 * 2_200)
    for key in range(4):
        kept.keep_evidences(str(key), (key, 1), NEWEST, (evidence("a", "x" * 90),))
    assert [kept.find_evidences(str(key), (key, 1), NEWEST) is not None for key in range(4)] == [
        False,
        False,
        True,
        True,
    ]
    for number in range(MOST_STATES + 2):
        kept.keep_state(SCOPE, (2, 1), f"t{number}", {"n": number}, 0)
    assert [kept.find_state(SCOPE, (2, 1), f"t{number}") for number in (0, 1, 2)] == [None, None, {"n": 2}]
    kept.follow(SCOPE, 2, 1, 2, [])
    assert kept.find_state(SCOPE, (2, 2), "t2") == {"n": 2}
    kept.close()
    kept.keep_state(SCOPE, (2, 2), "t2", {"n": 2}, 1)
    assert kept.find_state(SCOPE, (2, 2), "t2") is None


async def turn_with_evidence(store, turn_id, *items):
    head = await store.head(SESSION)
    await store.save_prepared(prepared_turn(head, turn_id), expected_version=head.version, evidences=items)


async def listed(store):
    inputs = await store.turn_inputs(SESSION, message_limit=1, evidences=(NEWEST,))
    return names(inputs.evidences[0])


@pytest.mark.anyio
@pytest.mark.parametrize("kind", STORES)
async def test_evidence_of_another_process_is_read_at_once(kind, tmp_path, request):
    async with two_stores(kind, tmp_path, request) as (mine, other):
        await mine.create_session(start(imported_turn("t1")))
        await turn_with_evidence(mine, "t2", evidence("a"))
        assert (await listed(mine), await listed(other)) == (["a=a"], ["a=a"])
        await turn_with_evidence(other, "t3", evidence("b"))
        assert (await listed(mine), await listed(other)) == (["a=a", "b=b"], ["a=a", "b=b"])
        await other.put_evidence(SESSION, evidence("a", "told anew"))
        await turn_with_evidence(mine, "t4", evidence("c"))
        assert (await listed(mine), await listed(other)) == (["a=told anew", "b=b", "c=c"],) * 2


@pytest.mark.anyio
@pytest.mark.parametrize("kind", STORES)
async def test_erased_evidence_and_states_are_not_kept(kind, tmp_path, request):
    async with two_stores(kind, tmp_path, request) as (store, other):
        await store.create_session(replace(start(imported_turn("t1")), state={"said": "the miller's own word"}))
        await play(store, "t2")
        for each in (store, other):
            await turn_with_evidence(each, "t3", evidence("a", "a secret of the mill, told to nobody"))
            await listed(each)
            await each.chosen_inputs(SESSION, {}, turn_ids=("t2",))
            held = b"".join(bytes_of_object(each))
            assert b"secret of the mill" in held
            assert b"miller's own word" in held
        await store.erase(Erasure(at=AT, session_id=SESSION))
        held = b"".join(bytes_of_object(store))
        assert b"secret of the mill" not in held
        assert b"miller's own word" not in held
        await store.create_session(start(imported_turn("t1")))
        for turn_id in ("t5", "t6"):
            await play(store, turn_id)
        assert (await listed(store), await listed(other)) == ([], []), "a new session of the same name and version"


def mark_of(version, *newest):
    return ScopeMark(session=(7, version), newest=newest)


def nothing_changed(after):
    return ()


def texts_in(held):
    return {entry_id: entry.text for entry_id, entry in held.entries.items()}


def test_entries_follow_the_writes_to_their_scope():
    kept = ScopeReads()
    kept.find(SCOPE, mark_of(4, 9, None), nothing_changed)
    kept.keep(SCOPE, mark_of(4, 9, None), (memory("a"), memory("b")))
    kept.keep(SCOPE, mark_of(4, 9, None), (memory("c", viewers=("gm",)),), are_all_gated=True)
    kept.keep(SCOPE, mark_of(3, 8, None), (memory("a", text="a slow reader's"),))
    assert texts_in(kept.find(SCOPE, mark_of(4, 9, None), nothing_changed)) == {"a": "a", "b": "b", "c": "c"}
    kept.follow(SCOPE, 7, 4, 5, [])
    asked = []
    held = kept.find(SCOPE, mark_of(5, 9, 12), lambda after: asked.append(after) or [("b", 0)])
    assert (asked, texts_in(held), [each.entry_id for each in held.gated]) == ([9], {"a": "a", "c": "c"}, ["c"])
    assert kept.find(SCOPE, mark_of(5, 9, 13), lambda after: [("d", 1)]).gated is None


@pytest.mark.parametrize("mark", [mark_of(5, 9, None), mark_of(5, 12, None), mark_of(4, 8, None), mark_of(4, None, 9)])
def test_entries_are_read_again_if_only_the_database_knows_what_was_deleted(mark):
    kept = ScopeReads()
    kept.find(SCOPE, mark_of(4, 9, None), nothing_changed)
    kept.keep(SCOPE, mark_of(4, 9, None), (memory("a"),))
    assert texts_in(kept.find(SCOPE, mark, nothing_changed)) == {}


def test_kept_entries_are_bounded():
    kept = ScopeReads(most_bytes=8 * 1_600)
    for number in range(3):
        kept.find(f"world:{number}", mark_of(1, 9), nothing_changed)
        kept.keep(f"world:{number}", mark_of(1, 9), [lore(f"l{each}", "x" * 50) for each in range(9)])
    assert [texts_in(kept.find(f"world:{number}", mark_of(1, 9), nothing_changed)) for number in range(3)] == [
        {"l7": "x" * 50, "l8": "x" * 50}
    ] * 3
    for number in range(MOST_SCOPES):
        kept.find(f"other:{number}", mark_of(1, 9), nothing_changed)
    assert texts_in(kept.find("world:2", mark_of(1, 9), nothing_changed)) == {}
    kept.close()
    held = kept.find(SCOPE, mark_of(1, 9), nothing_changed)
    kept.keep(SCOPE, mark_of(1, 9), (memory("a"),))
    assert texts_in(held) == {}


async def entries_of(store):
    """Return the texts that a turn finds: kept when it begins, read at last."""
    inputs = await store.turn_inputs(SESSION, message_limit=1)
    kept = [each.text for entries in inputs.kept_entries.values() for each in entries.values()]
    read = [*(await store.entries(WORLD_SCOPE, ("l1", "l2"))), *(await store.entries(SCOPE, ("m1", "m2", "t1.u")))]
    return sorted(kept), sorted(each.text for each in read), sorted(each.text for each in inputs.gated)


@pytest.mark.anyio
@pytest.mark.parametrize("kind", STORES)
async def test_entries_that_another_process_writes_are_read_at_once(kind, tmp_path, request):
    async with two_stores(kind, tmp_path, request) as (mine, other):
        await mine.replace_world("w1", "d1", (lore("l1", "an old well"), lore("l2", "a mill", viewers=("gm",))))
        entries = (memory("m1", turn_id="t1"), memory("m2", turn_id="t1", text="the miller's word"))
        await mine.create_session(start(imported_turn("t1"), entries=entries))
        everything = sorted(["an old well", "a mill", "m1", "the miller's word", "ask t1"])
        assert await entries_of(mine) == (["a mill"], everything, ["a mill"])
        assert await entries_of(mine) == (everything, everything, ["a mill"])
        await play(mine, "t2")
        assert (await entries_of(mine))[0] == everything, "a turn of this store moves them on"
        await other.replace_world("w1", "d2", (lore("l1", "a new well"), lore("l2", "a mill")))
        everything = sorted(["a new well", "a mill", "m1", "the miller's word", "ask t1"])
        assert await entries_of(mine) == (sorted(["m1", "the miller's word", "ask t1"]), everything, [])
        await other.append_entries(SESSION, (memory("m1", turn_id="t1", text=""),))
        everything.remove("m1")
        assert await entries_of(mine) == (everything, everything, [])
        await other.erase(Erasure(at=AT, session_id=SESSION))
        await other.create_session(start(imported_turn("t1")))
        assert await entries_of(mine) == (["a mill", "a new well"], ["a mill", "a new well", "ask t1"], [])


@pytest.mark.anyio
@pytest.mark.parametrize("kind", STORES)
async def test_erased_entries_are_not_kept_even_by_a_turn_that_has_begun(kind, tmp_path, request):
    async with two_stores(kind, tmp_path, request) as (store, _):
        entries = (memory("m1", turn_id="t1", text="the miller's own word", viewers=("gm",)),)
        await store.create_session(start(imported_turn("t1", "a secret of the mill"), entries=entries))
        await entries_of(store)
        begun = await store.turn_inputs(SESSION, message_limit=0)
        held = b"".join(bytes_of_object((store, begun.kept_entries)))
        assert b"secret of the mill" in held
        assert b"miller's own word" in held
        await store.erase(Erasure(at=AT, session_id=SESSION))
        held = b"".join(bytes_of_object((store, begun.kept_entries)))
        assert b"secret of the mill" not in held
        assert b"miller's own word" not in held


def messages_of(branch_id, depth, limit, *texts):
    said = [
        WindowMessage(message=Message(role=Role.USER, content=each), turn_id="t", branch_id=branch_id, depth=1)
        for each in texts
    ]
    return ReadMessages(branch_id=branch_id, depth=depth, limit=limit, messages=tuple(said))


def test_messages_of_one_branch_are_kept_as_many_as_were_asked_for():
    kept = ScopeReads(most_bytes=4_000)
    two = messages_of("main", 3, 2, "b", "c")
    kept.keep_messages(SCOPE, (7, 4), two)
    kept.keep_messages(SCOPE, (7, 4), messages_of("main", 3, 1, "c"))
    assert [kept.find_messages(SCOPE, (7, 4), "main", limit) for limit in (1, 2, 3)] == [two, two, None]
    assert kept.find_messages(SCOPE, (7, 4), "other", 1) is None
    kept.follow(SCOPE, 7, 4, 5, [])
    assert kept.find_messages(SCOPE, (7, 5), "main", 2) == two
    whole = messages_of("other", 3, 5, "a")
    kept.keep_messages(SCOPE, (7, 5), whole)
    assert (kept.find_messages(SCOPE, (7, 5), "other", 99), kept.find_messages(SCOPE, (7, 5), "main", 1)) == (
        whole,
        None,
    )
    kept.keep_messages(SCOPE, (7, 5), messages_of("other", 3, 5, "x" * 2_000))
    assert kept.find_messages(SCOPE, (7, 5), "other", 1) is None


@pytest.mark.anyio
@pytest.mark.parametrize("kind", STORES)
async def test_a_window_reads_only_new_messages_and_keeps_no_others(kind, tmp_path, request):
    async with two_stores(kind, tmp_path, request) as (mine, other):
        await mine.create_session(start(*(imported_turn(f"old{number}", f"long ago {number}") for number in range(50))))
        for turn_id in ("t1", "t2", "t3"):
            await play(mine, turn_id, text=f"new {turn_id}")
            for limit in (1, 4, 3):
                expected = [each.message.content for each in (await other.window(SESSION, message_limit=200)).messages]
                window = await mine.window(SESSION, message_limit=limit)
                assert [each.message.content for each in window.messages] == expected[-limit:]
        (reads,) = [each for each in objects_in(mine) if isinstance(each, ScopeReads)]
        held = b"".join(bytes_of_object(reads))
        assert b"new t2" in held
        assert b"long ago" not in held
        assert b"new t1" not in held


@pytest.mark.anyio
async def test_a_damaged_message_is_noted_each_time_that_the_window_is_read(tmp_path):
    async with two_stores("sqlite", tmp_path, None) as (store, _):
        await store.create_session(start(imported_turn("t1"), imported_turn("t2")))
        with closing(sqlite3.connect(tmp_path / "s.sqlite")) as database, database:
            database.execute("UPDATE messages SET body = CAST('{' AS BLOB) WHERE message_id = 't1.u'")
        for turn_id in ("t3", "t4"):
            mark = store.damage_log.mark()
            window = await store.window(SESSION, message_limit=9)
            assert len(store.damage_log.since(mark)) == 1
            assert "ask t1" not in [each.message.content for each in window.messages]
            await play(store, turn_id)
