"""A user's message belongs to the session from `prepare_turn` on, whether its model answers or not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from jacquard import HistoryConfig, RuntimeConfig, open_runtime
from mnemosyne import Author, AuthorKind, Chain, Erasure, Message, Role, export_session, import_session
from mnemosyne.core.errors import TurnNotPendingError
from mnemosyne.schema.memory import session_scope

pytestmark = pytest.mark.anyio

PACK = """id: isle
title: {title}
locale: {locale}
persona: {{name: Keeper}}
state: {{hero: {{gold: 3}}}}
"""
ACTIONS = """- id: buy
  patterns: ['buy a (?:lamp|rope)']
  ops: [["SUB", "hero.gold", 1]]
  reply: "Bought."
"""
NOTICE = {"en": "<notice>This message got no reply.</notice>", "zh": "<notice>这条消息没有得到回复。</notice>"}


@pytest.fixture(params=["en", "zh"])
def locale(request):
    return request.param


@pytest.fixture(params=["sqlite", "file"])
async def runtime(request, tmp_path, locale):
    pack = tmp_path / "isle"
    pack.mkdir()
    (pack / "world.yaml").write_text(PACK.format(title="The isle", locale=locale), encoding="utf-8")
    (pack / "actions.yaml").write_text(ACTIONS, encoding="utf-8")
    address = str(tmp_path / "store") if request.param == "sqlite" else f"file:{tmp_path / 'store'}"
    async with open_runtime(address, world=pack, embedder="none") as opened:
        await opened.ensure_session("s")
        yield opened


async def said(runtime, **where):
    document = await runtime.store.get_session("s", **where)
    return [message.content for message in document.session.messages]


def talk(turn):
    return [message.content for message in turn.messages[1:]]


async def test_a_message_without_a_reply_stands_in_the_session_and_in_later_prompts(runtime, locale):
    await runtime.engine.prepare_turn("s", "The light went out at four.")
    assert await said(runtime) == ["The light went out at four."]
    second = await runtime.engine.prepare_turn("s", "Who lit it again?")
    lost = f"The light went out at four.\n{NOTICE[locale]}"
    assert talk(second) == [f"{lost}\n\n<user_input>\nWho lit it again?\n</user_input>"]
    assert second.package.recent_turns[0].content == "The light went out at four."
    await runtime.engine.commit_assistant_message("s", "Nobody did.")
    third = await runtime.engine.prepare_turn("s", "Go on.")
    assert talk(third)[:2] == [f"{lost}\n\nWho lit it again?", "Nobody did."]
    assert await said(runtime) == ["The light went out at four.", "Who lit it again?", "Nobody did.", "Go on."]


async def test_it_is_found_by_recall_once_it_has_left_the_window(runtime):
    config = RuntimeConfig(history=HistoryConfig(max_messages=2, max_tokens=60))
    await runtime.engine.prepare_turn("s", "My brother Anselm keeps the pearl diving bell.", config)
    for _ in range(3):
        await runtime.engine.prepare_turn("s", "Let us walk on along the quiet shore.", config)
        await runtime.engine.commit_assistant_message("s", "You walk on and on.")
    chain = await runtime.store.entries_after(session_scope("s"), Chain.HISTORY, 0, 99)
    assert chain[0].entry.text == "My brother Anselm keeps the pearl diving bell."
    turn = await runtime.engine.prepare_turn("s", "Where is the diving bell of Anselm?", config)
    assert "pearl diving bell" in turn.text
    assert any(each.chosen and "pearl" in each.preview for each in turn.report.stream_b.candidates)


async def test_the_same_input_again_is_a_retry_and_counts_once(runtime):
    first = await runtime.engine.prepare_turn("s", "Hello?")
    again = await runtime.engine.prepare_turn("s", "Hello?")
    other = await runtime.engine.prepare_turn("s", "Hello?", RuntimeConfig(layout="classic"))
    assert again.text == first.text
    assert first.turn_id == again.turn_id == other.turn_id
    assert await said(runtime) == ["Hello?"]
    second = await runtime.engine.prepare_turn("s", "Anybody?")
    for _ in range(2):
        assert (await runtime.engine.prepare_turn("s", "Anybody?")).turn_id == second.turn_id
    assert await said(runtime) == ["Hello?", "Anybody?"]


async def test_the_same_input_under_another_turn_id_is_a_retry_too(runtime):
    for turn_id in ("a", "b", None, "c"):
        await runtime.engine.prepare_turn("s", "one", turn_id=turn_id)
        assert await said(runtime) == ["one"]
    await runtime.engine.commit_assistant_message("s", "Here.", turn_id="c")
    assert await said(runtime) == ["one", "Here."]


async def test_a_host_that_names_its_turns_can_repeat_each(runtime):
    await runtime.engine.prepare_turn("s", "one", turn_id="a")
    await runtime.engine.prepare_turn("s", "one", turn_id="a")
    await runtime.engine.prepare_turn("s", "two", turn_id="b")
    await runtime.engine.prepare_turn("s", "two", turn_id="b")
    assert await said(runtime) == ["one", "two"]
    with pytest.raises(TurnNotPendingError):
        await runtime.engine.commit_assistant_message("s", "Too late.", turn_id="a")
    done = await runtime.engine.commit_assistant_message("s", "Here.", turn_id="b")
    assert done.content == "Here."
    assert await said(runtime) == ["one", "two", "Here."]


async def test_an_action_after_it_leaves_it_in_the_talk(runtime, locale):
    await runtime.engine.prepare_turn("s", "I sing of the drowned bell.")
    bought = await runtime.engine.prepare_turn("s", "buy a lamp")
    assert bought.reply == "Bought."
    assert await said(runtime) == ["I sing of the drowned bell.", "buy a lamp", "Bought."]
    turn = await runtime.engine.prepare_turn("s", "And now?")
    assert talk(turn)[0].startswith(f"I sing of the drowned bell.\n{NOTICE[locale]}")
    chain = await runtime.store.entries_after(session_scope("s"), Chain.HISTORY, 0, 99)
    assert [each.entry.text for each in chain] == ["I sing of the drowned bell."]


async def test_branches_keep_what_was_said_before_them_and_no_more(runtime):
    await runtime.engine.prepare_turn("s", "one", turn_id="a")
    two = await runtime.engine.prepare_turn("s", "two", turn_id="b")
    await runtime.engine.commit_assistant_message("s", "Two it is.")
    record = await runtime.store.turn("s", two.turn_id)
    await runtime.store.fork("s", record.parent_id, "swipe")
    swiped = await runtime.engine.prepare_turn("s", "two")
    assert talk(swiped)[0].startswith("one\n<notice>")
    await runtime.store.fork("s", None, "fresh")
    assert len(talk(await runtime.engine.prepare_turn("s", "three"))) == 1
    assert await said(runtime, branch_id="swipe") == ["one", "two"]
    assert await said(runtime, branch_id="main") == ["one", "two", "Two it is."]


async def test_a_turn_that_cannot_be_prepared_leaves_the_one_before_it_waiting(runtime):
    await runtime.engine.prepare_turn("s", "one", turn_id="a")
    before = await runtime.store.head("s")
    with pytest.raises(Exception, match="template"):
        await runtime.engine.prepare_turn("s", "two", RuntimeConfig(template_id="no_such_template"))
    assert await runtime.store.head("s") == before
    await runtime.engine.commit_assistant_message("s", "One it is.", turn_id="a")
    assert await said(runtime) == ["one", "One it is."]


async def test_documents_carry_it_and_bring_it_back(runtime, tmp_path):
    await runtime.engine.prepare_turn("s", "one")
    await runtime.engine.prepare_turn("s", "two")
    document = await export_session(runtime.store, "s")
    assert [message.content for message in document.session.messages] == ["one", "two"]
    async with open_runtime(tmp_path / "copy", embedder="none") as other:
        await import_session(other.store, document)
        assert await export_session(other.store, "s") == document
        assert (await other.store.window("s", message_limit=9)).pending is not None
    linear = await export_session(runtime.store, "s", linear=True)
    async with open_runtime(tmp_path / "linear", embedder="none") as other:
        await import_session(other.store, linear)
        assert (await export_session(other.store, "s", linear=True)).session.messages == linear.session.messages


async def test_an_erased_user_leaves_nothing_of_it(runtime):
    secret = "My hidden name is Wilhelmina Quarterstaff."
    author = Author(kind=AuthorKind.USER, id="lin")
    await runtime.engine.prepare_turn("s", Message(role=Role.USER, content=secret, author=author))
    await runtime.engine.prepare_turn("s", "Another voice speaks now.")
    done = await runtime.forget(Erasure(at=datetime.now(UTC), user_id="lin", reason="asked to"))
    assert done.proof.holds
    assert await runtime.store.find_text((secret,)) == ()
    turn = await runtime.engine.prepare_turn("s", "And a third.")
    assert "Wilhelmina" not in turn.text


async def test_the_receipt_names_it(runtime):
    await runtime.engine.prepare_turn("s", "one", turn_id="a")
    turn = await runtime.engine.prepare_turn("s", "two")
    assert any(each.block_id == "a.u" and each.action.value == "kept" for each in turn.report.decisions)
