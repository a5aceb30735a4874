"""`turn.messages` go to a model as they are: through json, the openai client and litellm, over real HTTP."""

from __future__ import annotations

import copy
import json
import pickle

import anyio
import pytest
from servers.openai_server import OpenAiServer

from jacquard import create_context_engine
from mnemosyne import MemoryStore

ASKED = "Where is the <mill>?"


async def prepared(store=None):
    async with create_context_engine(store or MemoryStore()) as engine:
        return await engine.prepare_turn("s1", ASKED)


def plain(messages):
    return [{"role": message.role, "content": message.content} for message in messages]


@pytest.mark.anyio
async def test_messages_are_written_as_json_as_they_are():
    messages = (await prepared()).messages
    assert [message.role for message in messages] == ["system", "user"]
    assert json.loads(json.dumps(messages)) == plain(messages) == list(messages)
    assert list(json.loads(json.dumps(messages[0]))) == ["role", "content"]


@pytest.mark.anyio
async def test_a_message_equals_and_hashes_by_what_it_says_and_cannot_be_changed():
    first, again = (await prepared()).messages, (await prepared()).messages
    assert first == again
    assert len({*first, *again}) == len(first)
    assert first[0] != first[1]
    assert copy.deepcopy(first) == first == pickle.loads(pickle.dumps(first))
    assert pickle.loads(pickle.dumps(first))[0].role == "system"
    for change in (
        lambda message: message.update(role="user"),
        lambda message: message.pop("role"),
        lambda message: message.__setitem__("content", ""),
        lambda message: message.clear(),
    ):
        with pytest.raises(TypeError, match="copy"):
            change(first[0])
    with pytest.raises(AttributeError):
        first[0].content = ""
    changed = dict(first[0]) | {"cache_control": {"type": "ephemeral"}}
    assert (changed["content"], "cache_control" in first[0]) == (first[0].content, False)


@pytest.mark.anyio
async def test_a_turn_from_its_record_gives_the_same_messages():
    store = MemoryStore()
    async with create_context_engine(store) as engine:
        turn = await engine.prepare_turn("s1", ASKED)
        again = await engine.prepare_turn("s1", ASKED)
        record = await store.turn("s1", turn.turn_id)
    assert again.messages == turn.messages
    assert type(again.messages[0]) is type(turn.messages[0])
    stored = [{**each, "content": "".join(each["content"])} for each in record.prompt["messages"]]
    assert stored == plain(turn.messages)


@pytest.fixture
def sent(monkeypatch):
    """Return what a server got from a call of a client."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")

    def call(client):
        with OpenAiServer("text:It stands by the river.") as server:
            answer = client(server.api_base)
        assert answer.choices[0].message.content == "It stands by the river."
        return server.requests[-1].body["messages"]

    return call


@pytest.fixture
def messages():
    return anyio.run(prepared).messages


def test_the_openai_client_takes_them(sent, messages):
    openai = pytest.importorskip("openai")

    def create(api_base):
        with openai.OpenAI(base_url=api_base, api_key="none", max_retries=0) as client:
            return client.chat.completions.create(model="small", messages=messages)

    assert sent(create) == plain(messages)


def test_litellm_takes_them(sent, messages):
    litellm = pytest.importorskip("litellm")

    def complete(api_base):
        return litellm.completion(model="openai/small", messages=messages, api_base=api_base, api_key="none")

    assert sent(complete) == plain(messages)


def test_litellm_brings_them_into_the_form_of_another_provider(monkeypatch, messages):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = pytest.importorskip("litellm")
    with OpenAiServer("text:In the valley.") as server:
        answer = litellm.completion(
            model="anthropic/claude-3-5-sonnet-20241022", messages=messages, api_base=server.api_base, api_key="none"
        )
    assert answer.choices[0].message.content == "In the valley."
    body = server.requests[0].body
    assert body["system"][0]["text"] == messages[0].content.strip()
    assert body["messages"][0]["content"][0]["text"] == messages[1].content
    assert [message.role for message in messages] == ["system", "user"]
