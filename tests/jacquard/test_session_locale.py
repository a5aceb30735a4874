"""The locale of a session's document decides the language of our own words, before that of its world."""

import pytest

from jacquard import create_context_engine
from mnemosyne import Actor, MemoryStore, Message, Meta, Role, Session, SessionDocument

pytestmark = pytest.mark.anyio
SAID = (Message(role=Role.USER, content="Hello."), Message(role=Role.ASSISTANT, content="Hi."))


async def begin(store, **meta):
    document = SessionDocument(session=Session(session_id="s1", messages=SAID), meta=Meta(**meta))
    await store.put_session("s1", document)


def has_chinese(text):
    return any("\u4e00" <= sign <= "\u9fff" for sign in text)


async def ask(store, text="And now?"):
    async with create_context_engine(store) as engine:
        return await engine.prepare_turn("s1", text)


async def test_a_chinese_session_in_a_world_without_a_language():
    chinese, english = MemoryStore(), MemoryStore()
    await begin(chinese, locale="zh-CN")
    await begin(english, locale="en", actor=Actor(user_id="u1"))
    here, there = await ask(chinese), await ask(english)
    assert has_chinese(here.text)
    assert not has_chinese(there.text)


async def test_another_language_is_another_request():
    store = MemoryStore()
    await begin(store, locale="en")
    english = await ask(store)
    await store.patch_session("s1", {"meta": {"locale": "zh-CN"}})
    chinese = await ask(store)
    assert english.text != chinese.text
    assert (await ask(store)).text == chinese.text
