"""A chat of another program in a session: stopped and begun again, grown, gone another way, with other replies as branches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jacquard.turns.writing.chat_import import import_chat
from mnemosyne import (
    Chain,
    CorpusError,
    MemoryStore,
    Role,
    SessionStart,
    SqliteStore,
    Store,
)
from mnemosyne.formats.chats.sillytavern import read_chat
from mnemosyne.schema.memory import session_scope
from mnemosyne.testing.stores.samples import prepared_turn

pytestmark = pytest.mark.anyio

HEADER = {"user_name": "Wen", "character_name": "Mara", "create_date": "2024-5-1@12h 3m 4s", "chat_metadata": {}}


def user(text: str, **fields: Any) -> dict[str, Any]:
    return {"name": "Wen", "is_user": True, "mes": text, **fields}


def mara(text: str, *others: str, **fields: Any) -> dict[str, Any]:
    swipes = {"swipes": [*others, text], "swipe_id": len(others)} if others else {}
    return {"name": "Mara", "is_user": False, "mes": text, **swipes, **fields}


def talk(count: int) -> list[dict[str, Any]]:
    """A greeting, and as many questions with answers, every third with another answer."""
    lines = [mara("Welcome.", "Hello there.")]
    for number in range(count):
        others = (f"other {number}",) if number % 3 == 0 else ()
        lines += [user(f"question {number}"), mara(f"answer {number}", *others)]
    return lines


@pytest.fixture
def chat_file(tmp_path: Path):
    def write(*lines: dict[str, Any]) -> Path:
        path = tmp_path / "Mara.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in (HEADER, *lines)), encoding="utf-8")
        return path

    return write


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    opened = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")
    await opened.create_session(SessionStart(session_id="s", world_id="", locale="en", state={}))
    yield opened
    await opened.close()


async def bring(store: Store, path: Path, page: int = 4):
    return await import_chat(store, "s", read_chat(path).chats[0].read_turns(), page=page)


async def texts(store: Store, branch_id: str | None = None) -> list[str]:
    window = await store.window("s", message_limit=1000, branch_id=branch_id)
    return [placed.message.content for placed in window.messages]


async def everything(store: Store) -> dict[str, Any]:
    """All branches with their messages and the turns that these are in."""
    found = {}
    for head in await store.branches("s"):
        window = await store.window("s", message_limit=1000, branch_id=head.branch_id)
        found[head.branch_id] = [(each.turn_id, each.message) for each in window.messages]
    return found


async def test_a_chat_comes_in_with_its_other_replies(store, chat_file) -> None:
    lines = talk(7)
    done: list[int] = []
    turns = read_chat(chat_file(*lines)).chats[0].read_turns()
    head = await import_chat(store, "s", turns, page=3, progress=done.append)
    assert done == [3, 6, 8]
    assert (head.branch_id, head.depth) == ("main", 8)
    assert await texts(store) == [line["mes"] for line in lines]
    swipes = {head.branch_id: await texts(store, head.branch_id) for head in await store.branches("s")}
    del swipes["main"]
    assert all(name.startswith("swipe-") for name in swipes)
    assert sorted(said[-1] for said in swipes.values()) == ["Hello there.", "other 0", "other 3", "other 6"]
    assert ["Welcome.", "question 0", "other 0"] in swipes.values()
    assert ["Hello there."] in swipes.values()


async def test_the_same_chat_again_changes_nothing(store, chat_file) -> None:
    path = chat_file(*talk(7))
    await bring(store, path)
    before, version = await everything(store), (await store.head("s")).version
    head = await bring(store, path, page=3)
    assert await everything(store) == before
    assert head.version == version


@pytest.mark.parametrize("stops", range(1, 9))
async def test_an_import_that_is_stopped_goes_on_where_it_was(store, chat_file, stops: int) -> None:
    """The store fails at its n-th write; the same import again brings what one without a stop does."""
    path = chat_file(*talk(7))
    whole = MemoryStore()
    await whole.create_session(SessionStart(session_id="s", world_id="", locale="en", state={}))
    await bring(whole, path)

    class Stopped(BaseException):
        pass

    class Stopping:
        left = stops

        def __getattr__(self, name):
            if name in ("append_turns", "add_branches"):
                self.left -= 1
                if self.left < 0:
                    raise Stopped
            return getattr(store, name)

    stopping = Stopping()
    try:
        await bring(stopping, path, page=2)
    except Stopped:
        assert await texts(store) != [line["mes"] for line in talk(7)] or stops > 4
    else:
        assert stopping.left >= 0
    assert (await store.head("s")).branch_id == "main"
    await bring(store, path, page=3)
    assert await everything(store) == await everything(whole)


async def test_a_chat_that_has_grown_brings_its_new_turns(store, chat_file) -> None:
    await bring(store, chat_file(*talk(3)))
    head = await bring(store, chat_file(*talk(6)))
    assert (head.branch_id, head.depth) == ("main", 7)
    assert await texts(store) == [line["mes"] for line in talk(6)]
    assert len(await store.branches("s")) == 1 + 3


async def test_a_turn_that_has_grown_is_gone_on_with(store, chat_file) -> None:
    """The chat was exported before its newest input had its replies."""
    lines = [mara("Welcome."), user("hello"), mara("Hm."), {"name": "Bo", "is_user": False, "mes": "Oh!"}, user("bye")]
    for count in (2, 3, 4, 5, 5):
        head = await bring(store, chat_file(*lines[:count]))
        assert head.branch_id == "main"
        assert await texts(store) == [line["mes"] for line in lines[:count]]
    assert [each.branch_id for each in await store.branches("s")] == ["main"]


async def test_another_reply_that_was_chosen_since_goes_on_from_its_branch(store, chat_file) -> None:
    start = [mara("Welcome."), user("hello")]
    await bring(store, chat_file(*start, mara("Hm.", "Oh!")))
    chosen = {**mara("Hm.", "Oh!"), "mes": "Oh!", "swipe_id": 0}
    for _ in range(2):
        head = await bring(store, chat_file(*start, chosen, user("bye"), mara("Farewell.")))
        assert head.branch_id.startswith("swipe-")
        assert await texts(store, head.branch_id) == ["Welcome.", "hello", "Oh!", "bye", "Farewell."]
        assert await texts(store) == ["Welcome.", "hello", "Hm."], "the active branch stays"
        assert len(await store.branches("s")) == 2


async def test_a_chat_that_goes_another_way_becomes_a_branch(store, chat_file) -> None:
    lines = talk(6)
    await bring(store, chat_file(*lines))
    before = await texts(store)
    other = [
        *lines[:5],
        user("question 2, put otherwise"),
        mara("answer 2", "another answer 2"),
        *lines[7:],
        user("more"),
    ]
    counts = []
    for _ in range(2):
        head = await bring(store, chat_file(*other))
        assert head.branch_id.startswith("chat-")
        assert await texts(store, head.branch_id) == [line["mes"] for line in other]
        assert await texts(store) == before
        counts.append(len(await store.branches("s")))
    assert counts[0] == counts[1]
    grown = [*other, mara("much more")]
    head = await bring(store, chat_file(*grown))
    assert await texts(store, head.branch_id) == [line["mes"] for line in grown]
    assert len(await store.branches("s")) == counts[0]


async def test_a_session_that_was_played_on_keeps_its_turns(store, chat_file) -> None:
    await bring(store, chat_file(*talk(2)))
    head = await store.head("s")
    await store.save_prepared(prepared_turn(head, "mine", "what I said here"), expected_version=head.version)
    head = await bring(store, chat_file(*talk(4)))
    assert head.branch_id.startswith("chat-")
    window = await store.window("s", message_limit=9)
    assert window.head.branch_id == "main"
    assert window.pending is not None
    assert window.pending.turn_id == "mine"


async def test_a_first_message_that_was_edited_makes_a_branch_from_the_beginning(store, chat_file) -> None:
    await bring(store, chat_file(*talk(2)))
    for _ in range(2):
        head = await bring(store, chat_file(mara("Welcome, friend."), *talk(2)[1:]))
        assert await texts(store, head.branch_id) == ["Welcome, friend.", *[line["mes"] for line in talk(2)[1:]]]
        assert len([each for each in await store.branches("s") if each.branch_id.startswith("chat-")]) == 1


async def test_another_conversation_is_refused(store, chat_file, tmp_path: Path) -> None:
    await bring(store, chat_file(*talk(2)))
    before = await everything(store)
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps(user("Who are you?")), encoding="utf-8")
    with pytest.raises(CorpusError, match=r"'s' has another conversation.*session of its own"):
        await bring(store, other)
    assert await everything(store) == before


async def test_a_hidden_message_is_shown_to_nobody(store, chat_file) -> None:
    path = chat_file(user("hello"), mara("The thief is Bo.", is_system=True), mara("Hm."))
    await bring(store, path)
    window = await store.window("s", message_limit=9)
    assert [placed.message.extra.get("viewers") for placed in window.messages] == [None, ["\x00nobody"], None]
    entries = await store.entries_after(session_scope("s"), Chain.HISTORY, 0, 10)
    assert [each.entry.text for each in entries] == ["hello", "Hm."], "it is in no index"
    assert [placed.message.role for placed in window.messages] == [Role.USER, Role.ASSISTANT, Role.ASSISTANT]
