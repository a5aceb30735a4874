"""The real `openai` client in front of the proxy, a scripted model server behind it."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx
import openai
import pytest

from jacquard.config.service import ServiceSettings
from jacquard.service.running.application import build_app
from jacquard.testing.server import ScriptedServer

pytestmark = pytest.mark.anyio


QUESTION = [{"role": "user", "content": "Weather?"}]
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]


@pytest.fixture
def server():
    with ScriptedServer() as server:
        yield server


@asynccontextmanager
async def open_client(tmp_path, server, **settings):
    app = build_app(
        ServiceSettings(store=str(tmp_path / "store"), upstream=server.base_url, embedder="none", **settings)
    )
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport) as http:
        yield openai.AsyncOpenAI(base_url="http://127.0.0.1/v1", api_key="sk-client", http_client=http, max_retries=0)


async def test_a_plain_call_gets_the_model_servers_answer(tmp_path, server):
    server.set_script("text:It rains.")
    async with open_client(tmp_path, server) as client:
        answer = await client.chat.completions.create(model="m", messages=QUESTION, extra_body={"min_p": 0.1})
    assert answer.choices[0].message.content == "It rains."
    assert answer.usage.total_tokens > 0
    assert server.requests[0].body["min_p"] == 0.1
    assert server.requests[0].headers["authorization"] == "Bearer sk-client"


async def test_a_stream_comes_through_with_its_usage(tmp_path, server):
    server.set_script("text:It rains in Oslo.")
    async with open_client(tmp_path, server) as client:
        stream = await client.chat.completions.create(
            model="m", messages=QUESTION, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "It rains in Oslo."
    assert chunks[-1].usage.total_tokens > 0


@pytest.mark.parametrize("streams", [False, True])
async def test_tools_come_through(tmp_path, server, streams):
    server.set_script('tool:weather {"city": "Oslo"}')
    async with open_client(tmp_path, server) as client:
        answer = await client.chat.completions.create(model="m", messages=QUESTION, tools=TOOLS, stream=streams)
        if streams:
            calls = [chunk.choices[0].delta.tool_calls async for chunk in answer]
            [[call]] = [each for each in calls if each]
        else:
            [call] = answer.choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("weather", '{"city": "Oslo"}')
    assert server.requests[0].tools == ("weather",)


async def test_too_many_requests_of_the_model_server_say_when_to_come_again(tmp_path, server):
    server.set_script("status:429 retry-after=7 x-ratelimit-remaining-requests=0")
    async with open_client(tmp_path, server) as client:
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(model="m", messages=QUESTION)
    headers = caught.value.response.headers
    assert (headers["retry-after"], headers["x-ratelimit-remaining-requests"]) == ("7", "0")
    assert caught.value.body["message"] == "scripted failure"


async def test_a_failure_of_the_model_server_is_the_clients_to_see(tmp_path, server):
    server.set_script("status:500")
    async with open_client(tmp_path, server) as client:
        with pytest.raises(openai.InternalServerError, match="scripted failure"):
            await client.chat.completions.create(model="m", messages=QUESTION, stream=True)


async def test_models_are_those_of_the_model_server(tmp_path, server):
    async with open_client(tmp_path, server) as client:
        assert [model.id async for model in client.models.list()] == ["scripted"]


async def test_a_model_server_that_does_not_run_is_named_as_the_fault(tmp_path):
    class Gone:
        base_url = "http://127.0.0.1:9/v1"

    async with open_client(tmp_path, Gone) as client:
        with pytest.raises(openai.InternalServerError, match="cannot be reached") as caught:
            await client.chat.completions.create(model="m", messages=QUESTION)
    assert caught.value.status_code == 502


@pytest.mark.parametrize("streams", [False, True])
async def test_a_model_that_litellm_knows_answers_too(tmp_path, server, monkeypatch, streams):
    monkeypatch.setenv("OPENAI_API_BASE", server.base_url)
    server.set_script("text:It rains.", "status:429 retry-after=7")

    class Named:
        base_url = "openai/scripted"

    async with open_client(tmp_path, Named) as client:
        told = {"api_base": "http://127.0.0.1:9/v1", "api_key": "sk-other", "mock_response": "No."}
        answer = await client.chat.completions.create(model="m", messages=QUESTION, stream=streams, extra_body=told)
        if streams:
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in answer if chunk.choices])
        else:
            text = answer.choices[0].message.content
        assert [model.id async for model in client.models.list()] == ["openai/scripted"]
        with pytest.raises(openai.RateLimitError):
            await client.chat.completions.create(model="m", messages=QUESTION, stream=streams)
    assert text == "It rains."
    assert server.requests[0].headers["authorization"] == "Bearer sk-client"


FACT = "The spare lens lies below the third step of the tower."
ASKED = "Where does the spare lens lie, in the tower?"


async def test_the_calls_of_librechat_remember_what_they_no_longer_show(tmp_path, server):
    """LibreChat streams with usage, names the person in all of its chats, and has headers with the conversation's id."""
    server.set_script(*["text:Noted."] * 20)
    told = {"user": "665f1c2ab7", "stream": True, "stream_options": {"include_usage": True}, "model": "m"}

    async def say(client, chat, *said):
        card = {"role": "system", "content": "You keep a light."}
        messages = [card, *({"role": role, "content": text} for role, text in said)]
        headers = {"X-LibreChat-Conversation-Id": chat}
        async for _ in await client.chat.completions.create(messages=messages, extra_headers=headers, **told):
            pass
        return str(server.requests[-1].body["messages"])

    async with open_client(tmp_path, server) as client:
        await say(client, "chat-a", ("user", FACT))
        assert FACT not in await say(client, "chat-b", ("user", ASKED)), "another chat of the same person"
        assert FACT in await say(client, "chat-a", ("user", ASKED))
        unfilled = "{{LIBRECHAT_BODY_CONVERSATIONID}}"
        await say(client, unfilled, ("user", FACT))
        assert FACT not in await say(client, unfilled, ("user", ASKED))


@pytest.mark.parametrize("role", ["system", "developer"])
async def test_the_calls_of_cline_are_one_session_with_its_tools(tmp_path, server, role):
    """Cline sends the words of the user in parts, with details of its environment, which change; some models have a developer."""
    server.set_script('tool:read_file {"path": "lens.txt"}', "text:It is done.", "text:You told me so.")
    parts = [{"type": "text", "text": f"<task>{FACT}</task>"}, {"type": "text", "text": "<environment_details>1"}]
    messages = [{"role": role, "content": "You are a coder."}, {"role": "user", "content": parts}]
    told = {"model": "m", "stream": True, "stream_options": {"include_usage": True}, "tools": TOOLS}
    async with open_client(tmp_path, server) as client:
        async for _ in await client.chat.completions.create(messages=messages, **told):
            pass
        call = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "lens.txt"}'}}
        messages += [
            {"role": "assistant", "content": "I read it.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "a lens"},
        ]
        async for _ in await client.chat.completions.create(messages=messages, **told):
            pass
        messages += [
            {"role": "assistant", "content": "It is done."},
            {
                "role": "user",
                "content": [{"type": "text", "text": ASKED}, {"type": "text", "text": "<environment_details>2"}],
            },
        ]
        chunks = [each async for each in await client.chat.completions.create(messages=messages, **told)]
        sessions = (await client.get("http://127.0.0.1/api/v1/sessions", cast_to=httpx.Response)).json()["items"]
    assert "".join(each.choices[0].delta.content or "" for each in chunks if each.choices) == "You told me so."
    assert chunks[-1].usage.total_tokens > 0
    assert len(sessions) == 1
    assert [each for each in server.requests[-1].body["messages"] if each in messages] == messages
