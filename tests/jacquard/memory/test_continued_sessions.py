"""A session that begins with the memories of another: what it takes along, where each is from, and what an erasure takes back."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from verb_faces import FACES

from jacquard import ConfigError, MemoryVerbs, RuntimeConfig, open_runtime
from jacquard.core.errors import MemoryNotFoundError
from jacquard.memory.verbs.values import MemoryAction
from mnemosyne import (
    Actor,
    Author,
    AuthorKind,
    Chain,
    Erasure,
    MemoryEntry,
    Message,
    Meta,
    Role,
    Session,
    SessionDocument,
    SessionNotFoundError,
    UserFact,
)
from mnemosyne.core.errors import SessionExistsError
from mnemosyne.schema.memory import session_scope

pytestmark = pytest.mark.anyio
SETTINGS = RuntimeConfig(profile="assistant")
AT = datetime(2026, 11, 1, tzinfo=UTC)
FACT, PINNED = "The boat key hangs behind the blue clock.", "Marta never lends her lantern to strangers."
TOLD = "Old Finn stole the temple bell and buried it under the third willow."


@pytest.fixture(params=["sqlite", "file", "postgresql"])
def address(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return str(tmp_path / "store") if request.param == "sqlite" else f"file:{tmp_path / 'store'}"


async def say(runtime, session_id, text, reply, **config):
    turn = await runtime.engine.prepare_turn(session_id, text, RuntimeConfig(profile="assistant", **config))
    await runtime.engine.commit_assistant_message(
        session_id, Message(role=Role.ASSISTANT, content=reply), turn_id=turn.turn_id
    )
    return turn


def shown(turn):
    return "\n".join(message.content for message in turn.messages)


@asynccontextmanager
async def played(address):
    """Give an open store with a session of Ana's, in which something was told and remembered."""
    async with open_runtime(address, embedder="none", config=SETTINGS) as runtime:
        meta = Meta(created_at=AT, actor=Actor(user_id="ana"))
        document = SessionDocument(session=Session(session_id="old"), meta=meta)
        await runtime.store.put_session("old", document, expected_version=0)
        verbs = MemoryVerbs(runtime, author="ana")
        await say(runtime, "old", "Who stole the bell?", TOLD)
        turn = await say(runtime, "old", "I thank him and leave.", "Finn nods.")
        event = MemoryEntry(
            entry_id="e1",
            scope=session_scope("old"),
            chain=Chain.EVENT,
            kind="learned",
            text="Finn confessed where the bell is.",
            turn_id=turn.turn_id,
        )
        await runtime.store.append_entries("old", (event,))
        await verbs.remember("old", FACT, title="boat")
        await verbs.pin("old", (await verbs.remember("old", PINNED)).edit_id)
        yield runtime, verbs


async def texts_of(verbs, session_id, words="boat key clock bell willow Finn lantern confessed"):
    return [each.text for each in await verbs.search(session_id, words, limit=50)]


async def test_a_new_session_has_the_memories_the_pins_and_a_summary_of_the_old_one(address):
    async with played(address) as (runtime, verbs):
        head = await verbs.continue_session("old", "new")
        assert (head.session_id, head.turn_id, head.depth) == ("new", None, 0)
        found = "\n".join(await texts_of(verbs, "new"))
        for text in (FACT, PINNED, TOLD, "Finn confessed where the bell is.", "Finn nods."):
            assert text in found
        prompt = shown(await say(runtime, "new", "Good morning, everyone.", "Good morning."))
        assert PINNED in prompt
        assert "What happened before, in session old:" in prompt
        assert TOLD in prompt
        prompt = shown(await say(runtime, "new", "Where is the boat key?", "Behind the clock."))
        assert FACT in prompt
        assert 'session="old"' in prompt


async def test_every_memory_says_from_which_session_and_turn_it_is(address):
    async with played(address) as (_, verbs):
        await verbs.continue_session("old", "new")
        await verbs.continue_session("new", "newer")
        hits = await verbs.search("newer", "bell Finn boat key confessed", limit=50)
        found = {each.text: each.sources for each in hits}
        (first, second) = next(sources for text, sources in found.items() if text.endswith(TOLD))
        assert (first.session_id, first.depth, second.session_id) == ("old", 1, "new")
        assert (first.turn_id, second.turn_id) == (first.memory_id, None)
        assert [each.session_id for each in found[FACT]] == ["old", "new"]
        assert found["Finn confessed where the bell is."][0].memory_id == "e1"
        memory = await verbs.memory("newer", found_id(await verbs.search("newer", FACT)))
        assert [each.session_id for each in memory.sources] == ["old", "new"]


def found_id(found):
    return next(each.memory_id for each in found if each.text == FACT)


async def test_the_same_call_again_returns_the_session_and_another_one_is_refused(address):
    async with played(address) as (runtime, verbs):
        await verbs.continue_session("old", "new")
        await say(runtime, "new", "Hello.", "Hello, Ana.")
        assert (await verbs.continue_session("old", "new")).depth == 1
        assert [each.action for each in await verbs.log("old")].count(MemoryAction.CONTINUE) == 1
        with pytest.raises(SessionExistsError):
            await verbs.continue_session("old", "new", memory_ids=["e1"])
        await runtime.ensure_session("other")
        with pytest.raises(SessionExistsError):
            await verbs.continue_session("old", "other")
        with pytest.raises(SessionExistsError):
            await verbs.continue_session("old", "old")
        with pytest.raises(SessionNotFoundError):
            await verbs.continue_session("nowhere", "else")


async def test_what_cannot_be_done_leaves_nothing_behind(address):
    async with played(address) as (runtime, verbs):
        before = await verbs.log("old")
        for given in ({"memory_ids": ["e1", "unknown"]}, {"memory_ids": ["e1"], "query": "bell"}, {}):
            with pytest.raises((MemoryNotFoundError, ConfigError)):
                await verbs.continue_session("old", "new" if given else " ", **given)
        assert await verbs.log("old") == before
        assert set(await runtime.store.sessions()) == {"old"}


async def test_the_facts_about_its_owner_come_along(address):
    async with played(address) as (runtime, verbs):
        await runtime.engine.remember("ana", (UserFact(text="Ana is allergic to lilies."),))
        await verbs.continue_session("old", "new")
        assert (await runtime.store.window("new", message_limit=1)).meta.actor == Actor(user_id="ana")
        assert "allergic to lilies" in shown(await say(runtime, "new", "Hello.", "Hello."))


async def test_chosen_memories_come_alone_by_ids_or_by_a_search(address):
    async with played(address) as (_, verbs):
        said = (await verbs.search("old", "bell willow"))[0]
        await verbs.continue_session("old", "one", memory_ids=[said.memory_id])
        assert [text for text in await texts_of(verbs, "one") if "happened before" not in text] == [
            f"user: Who stole the bell?\nassistant: {TOLD}"
        ]
        await verbs.continue_session("old", "two", query="boat key", limit=1)
        found = [text for text in await texts_of(verbs, "two") if "happened before" not in text]
        assert found == [FACT]
        await verbs.continue_session("old", "none", memory_ids=[])
        assert not [text for text in await texts_of(verbs, "none") if "happened before" not in text]


async def test_what_was_superseded_stays_behind_and_its_correction_comes(address):
    async with played(address) as (_, verbs):
        await verbs.edit("old", found_id(await verbs.search("old", FACT)), "The boat key lies under the red mat.")
        await verbs.supersede("old", "e1")
        await verbs.continue_session("old", "new")
        found = await texts_of(verbs, "new", "boat key clock mat confessed")
        assert "The boat key lies under the red mat." in found
        assert not {FACT, "Finn confessed where the bell is."} & set(found)
        with pytest.raises(ConfigError, match="superseded"):
            await verbs.continue_session("old", "other", memory_ids=["e1"])


async def test_copies_are_edited_forgotten_and_unpinned_as_any_memory(address):
    async with played(address) as (runtime, verbs):
        await verbs.continue_session("old", "new")
        await verbs.forget("new", found_id(await verbs.search("new", FACT)))
        assert FACT not in await texts_of(verbs, "new")
        assert FACT in await texts_of(verbs, "old")
        summary = next(e for e in await verbs.search("new", "bell willow") if "happened before" in e.text)
        assert summary.pinned
        await verbs.unpin("new", summary.memory_id)
        assert "What happened before" not in shown(await say(runtime, "new", "I yawn.", "Sleep well."))
        with pytest.raises(ConfigError, match="erase that session"):
            await verbs.undo(
                "old", next(e.edit_id for e in await verbs.log("old") if e.action is MemoryAction.CONTINUE)
            )


async def test_a_viewer_takes_along_only_what_it_may_know(address):
    async with played(address) as (runtime, verbs):
        bob = MemoryVerbs(runtime, author="bob", viewer="bob")
        await bob.remember("old", "Bob hid a silver coin in the oven.")
        await MemoryVerbs(runtime, viewer="eve").continue_session("old", "eves")
        assert not [text for text in await texts_of(verbs, "eves", "silver coin oven") if "silver" in text]
        await bob.continue_session("old", "bobs")
        assert "Bob hid a silver coin in the oven." in await texts_of(bob, "bobs", "silver coin oven")
        eve = MemoryVerbs(runtime, viewer="eve")
        assert not [text for text in await texts_of(eve, "bobs", "silver coin oven") if "silver" in text]


async def erase(runtime, **subject):
    erasure = Erasure(at=AT, **subject)
    plan = await runtime.plan_erasure(erasure)
    done = await runtime.forget(erasure)
    assert done.done, (done.proof, done.faults)
    return plan, done


@pytest.mark.parametrize("subject", [{"session_id": "old"}, {"user_id": "ana"}])
async def test_an_erasure_of_the_source_takes_the_copies_and_their_texts(address, subject):
    async with played(address) as (runtime, verbs):
        await verbs.continue_session("old", "new")
        await verbs.continue_session("new", "newer")
        for name in ("new", "newer"):
            await say(runtime, name, "Where is the boat key? And who stole the bell?", "I do not know, Ben.")
            # They are somebody else's now, who remembers something too.
            await runtime.store.patch_session(name, {"meta": {"actor": {"user_id": "ben"}}})
            await verbs.remember(name, "Ben has a red scarf.")
        plan, done = await erase(runtime, **subject)
        assert set(plan.touched) >= {"new", "newer"}
        assert "old" in done.outcome.sessions
        for name in ("new", "newer"):
            assert (await runtime.store.head(name)).depth == 1
            found = await texts_of(verbs, name, "scarf bell boat key Finn lantern")
            assert "Ben has a red scarf." in found
            assert not [text for text in found if "Finn" in text or "lantern" in text or "behind" in text]
            prompt = shown(await say(runtime, name, "I look at the clock.", "It ticks."))
            assert not [text for text in (FACT, PINNED, TOLD, "What happened before") if text in prompt]
        assert await runtime.store.find_text((FACT, PINNED, TOLD)) == ()


async def test_a_memory_that_is_forgotten_in_the_old_session_goes_from_the_new_one(address):
    async with played(address) as (runtime, verbs):
        await verbs.continue_session("old", "new")
        await say(runtime, "new", "Where is the boat key?", "Let me think.")
        await verbs.forget("old", found_id(await verbs.search("old", FACT)))
        assert FACT not in await texts_of(verbs, "new")
        assert PINNED in await texts_of(verbs, "new")
        assert await runtime.store.find_text((FACT,)) == ()


async def test_what_a_user_wrote_in_the_session_of_another_goes_from_its_continuation(address):
    async with open_runtime(address, embedder="none", config=SETTINGS) as runtime:
        await runtime.ensure_session("old")
        verbs = MemoryVerbs(runtime)
        secret = "My grandmother's recipe needs three bitter almonds and a pinch of saffron."
        lin = Author(kind=AuthorKind.USER, id="lin")
        await say(runtime, "old", Message(role=Role.USER, content=secret, author=lin), "Noted.")
        await verbs.continue_session("old", "new")
        assert any(secret in text for text in await texts_of(verbs, "new", "recipe almonds saffron"))
        await erase(runtime, user_id="lin")
        assert await runtime.store.find_text((secret,)) == ()
        assert (await runtime.store.head("new")).session_id == "new"


async def test_a_continuation_that_is_archived_is_opened_by_an_erasure(tmp_path):
    async with played(str(tmp_path / "store")) as (runtime, verbs):
        await verbs.continue_session("old", "new")
        await runtime.archive_session("new")
        await erase(runtime, session_id="old")
        assert await runtime.store.find_text((FACT, TOLD)) == ()
        assert await texts_of(verbs, "new") == []


async def test_a_chinese_session_is_continued_in_chinese(tmp_path):
    async with open_runtime(str(tmp_path / "store"), embedder="none", config=SETTINGS) as runtime:
        await runtime.ensure_session("old")
        await say(runtime, "old", "谁偷了铜钟？", "老陈把铜钟偷走，埋在第三棵柳树下。")
        await runtime.engine.continue_session("old", "new")
        prompt = shown(await say(runtime, "new", "早上好。", "早。"))
        assert "此前的故事（会话 old）：" in prompt
        assert "第三棵柳树" in prompt


@pytest.mark.parametrize("face", FACES)
async def test_a_session_is_continued_the_same_way_in_each_face(face, tmp_path):
    async with FACES[face](tmp_path) as verbs:
        await verbs.call("remember", "s", FACT, title="boat")
        for _ in range(2):
            head = await verbs.call("continue_session", "s", "t")
            assert (head["session_id"], head.get("turn_id")) == ("t", None)
        found = await verbs.call("search", "t", "Where is the boat key?")
        assert (found[0]["text"], found[0]["sources"][0]["session_id"]) == (FACT, "s")
