"""Retry, swipe, fork, rollback, edits and adoption as methods of the engine: nothing is lost, and the prompt follows the branch."""

from __future__ import annotations

import anyio
import pytest

from jacquard import ConfigError, create_context_engine, open_runtime
from mnemosyne import Author, AuthorKind, MemoryStore, Message, Role
from mnemosyne.core.errors import BranchExistsError, TurnNotFoundError

pytestmark = pytest.mark.anyio
WORLD = "examples/whispering_forest/en"


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
async def engine(store):
    async with create_context_engine(store) as made:
        for text, reply in (("One?", "First."), ("Two?", "Second."), ("Three?", "Third.")):
            await made.prepare_turn("s", text)
            await made.commit_assistant_message("s", reply)
        yield made


async def said(store, branch_id=None):
    document = await store.get_session("s", branch_id=branch_id)
    return [message.content for message in document.session.messages]


async def test_a_swipe_answers_the_same_input_on_a_branch_and_the_former_reply_stays(engine, store):
    turn = await engine.swipe("s")
    assert turn.messages[-1].content == "Three?"
    assert [message.content for message in turn.messages].count("Third.") == 0
    await engine.commit_assistant_message("s", "Third, otherwise.")
    assert (await said(store))[-2:] == ["Three?", "Third, otherwise."]
    assert [head.branch_id for head in await engine.branches("s")] == ["swipe-1", "main"]
    again = await engine.swipe("s")
    assert again.branch_id == "swipe-2"
    await engine.switch("s", "main")
    assert (await said(store))[-1] == "Third."


async def test_a_swipe_of_an_earlier_turn_begins_there(engine, store):
    second = (await store.turns("s", limit=2))[0]
    turn = await engine.swipe("s", turn_id=second.turn_id)
    assert turn.depth == 2
    assert turn.messages[-1].content == "Two?"
    assert await said(store, "main") == ["One?", "First.", "Two?", "Second.", "Three?", "Third."]


async def test_a_retry_of_a_waiting_turn_is_the_same_turn_and_else_a_swipe(engine):
    waiting = await engine.prepare_turn("s", "Four?")
    assert (await engine.retry("s")).turn_id == waiting.turn_id
    await engine.commit_assistant_message("s", "Fourth.")
    assert (await engine.retry("s")).branch_id == "swipe-1"


async def test_a_retry_beside_a_commit_of_its_turn_never_says_the_input_twice(tmp_path):
    async with open_runtime(tmp_path, embedder="none", bare=True) as runtime:
        engine, store = runtime.engine, runtime.store
        for number in range(5):
            await engine.prepare_turn("s", f"Input {number}?")
            async with anyio.create_task_group() as both:
                both.start_soon(engine.commit_assistant_message, "s", f"Reply {number}.")
                both.start_soon(engine.retry, "s")
            await engine.commit_assistant_message("s", f"Another reply {number}.")
            path = await said(store)
            assert path.count(f"Input {number}?") == 1, path
            assert path[-1] == f"Another reply {number}."


async def test_a_turn_beside_a_swipe_comes_before_or_after_it_and_not_between_its_branch_and_its_turn(tmp_path):
    async with open_runtime(tmp_path, embedder="none", bare=True) as runtime:
        engine, store = runtime.engine, runtime.store
        await engine.prepare_turn("s", "One?")
        await engine.commit_assistant_message("s", "First.")
        async with anyio.create_task_group() as both:
            both.start_soon(engine.swipe, "s")
            both.start_soon(engine.prepare_turn, "s", "Two?")
        await engine.commit_assistant_message("s", "Second.")
        assert await said(store) == ["One?", "Two?", "Second."]
        assert await said(store, "main") == ["One?", "First."]


async def test_a_rollback_goes_on_from_an_earlier_turn(engine, store):
    first = (await store.turns("s", limit=3))[0]
    head = await engine.rollback("s", first.turn_id)
    assert head.depth == 1
    turn = await engine.prepare_turn("s", "Another way?")
    assert [message.content for message in turn.messages][-3:] == ["One?", "First.", "Another way?"]
    start = await engine.rollback("s", None)
    assert start.depth == 0


async def test_a_fork_takes_a_name_and_refuses_one_that_is_taken(engine, store):
    head = await store.head("s")
    assert (await engine.fork("s", head.turn_id, "what if")).branch_id == "what if"
    with pytest.raises(BranchExistsError):
        await engine.fork("s", head.turn_id, "what if")
    with pytest.raises(TurnNotFoundError):
        await engine.fork("s", "nowhere")


async def test_an_edited_message_has_its_new_text_in_the_next_prompt_and_the_old_one_stays_on_its_branch(engine, store):
    document = await store.get_session("s")
    reply = document.session.messages[1]
    head = await engine.edit_message("s", reply.message_id, "First, corrected.")
    assert (head.branch_id, head.depth) == ("edit-1", 3)
    assert await said(store) == ["One?", "First, corrected.", "Two?", "Second.", "Three?", "Third."]
    assert (await said(store, "main"))[1] == "First."
    turn = await engine.prepare_turn("s", "And?")
    assert "First, corrected." in [message.content for message in turn.messages]


@pytest.mark.parametrize(("message_id", "text"), [("nobody", "x"), (None, " ")])
async def test_an_edit_that_cannot_be_is_refused_and_changes_nothing(engine, store, message_id, text):
    before = await store.head("s")
    real = (await store.get_session("s")).session.messages[0].message_id
    with pytest.raises(ConfigError):
        await engine.edit_message("s", message_id or real, text)
    assert await store.head("s") == before


async def test_the_receipt_says_what_was_masked_in_an_edited_message(tmp_path):
    async with open_runtime(str(tmp_path / "store"), world=WORLD, embedder="none") as runtime:
        engine, store = runtime.engine, runtime.store
        await runtime.ensure_session("s", index=False)
        await engine.prepare_turn("s", "I knock.")
        await engine.commit_assistant_message("s", "<content>Nobody comes.</content>")

        async def edit_and_read(text):
            asked = (await store.window("s", message_limit=2)).messages[0].message
            await engine.edit_message("s", asked.message_id, text)
            edited = (await store.window("s", message_limit=2)).messages[0].message
            redactions = (await engine.prepare_turn("s", "And now?", dry_run=True)).report.redactions
            return edited, [each for each in redactions if each.block_id == edited.message_id]

        edited, (told,) = await edit_and_read("My password is swordfish77x, I knock.")
        assert edited.content == "My password is [redacted:secret], I knock."
        assert (told.rules_applied, dict(told.counts)) == (("secret",), {"secret": 1})
        edited, none = await edit_and_read("I knock twice.")
        assert (edited.content, none) == ("I knock twice.", [])


async def test_the_state_follows_an_edit_and_a_rollback(tmp_path):
    async with open_runtime(str(tmp_path / "store"), world=WORLD, embedder="none") as runtime:
        engine, store = runtime.engine, runtime.store
        await runtime.ensure_session("s", index=False)
        start = (await store.head("s")).turn_id
        for _ in range(2):
            await engine.prepare_turn("s", "I look for coins.")
            await engine.commit_assistant_message(
                "s", '<content>You find one.</content><state_update>[["ADD", "hero.gold", 1]]</state_update>'
            )
        gold = (await store.window("s", message_limit=1)).state["hero"]["gold"]
        newest = (await store.get_session("s")).session.messages[-3]
        await engine.edit_message("s", newest.message_id, "You find a coin of brass.")
        assert (await store.window("s", message_limit=1)).state["hero"]["gold"] == gold
        await engine.rollback("s", start)
        assert (await store.window("s", message_limit=1)).state["hero"]["gold"] == gold - 2


async def test_messages_from_elsewhere_are_adopted_with_their_roles_once(engine, store):
    elsewhere = [
        Message(role=Role.SYSTEM, content="Be brief.", message_id="m0"),
        Message(role=Role.USER, content="Hello.", message_id="m1", author=Author(kind=AuthorKind.USER, id="ann")),
        Message(role=Role.ASSISTANT, content="Hi.", message_id="m2", at="2026-01-31T08:30:00+00:00"),
        Message(role=Role.USER, content="How are you?", message_id="m3"),
        Message(role=Role.ASSISTANT, content="Well.", message_id="m4"),
    ]
    await engine.adopt_messages("new", elsewhere)
    await engine.adopt_messages("new", elsewhere)
    document = await store.get_session("new")
    assert [(m.role.value, m.content) for m in document.session.messages] == [
        ("system", "Be brief."),
        ("user", "Hello."),
        ("assistant", "Hi."),
        ("user", "How are you?"),
        ("assistant", "Well."),
    ]
    assert document.session.messages[1].author.id == "ann"
    turn = await engine.prepare_turn("new", "And now?")
    assert [message.content for message in turn.messages][-2:] == ["Well.", "And now?"]
    assert "Be brief." in turn.text
