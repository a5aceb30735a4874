"""Bodies of a megabyte, at every door of the service: nothing holds the event loop, which `conftest.py` watches."""

from __future__ import annotations

import json
import time
from contextlib import asynccontextmanager

import httpx
import pytest
from body_forms import list_bodies, list_trees
from text_entries import EXAMPLES

from jacquard.config.service import ServiceSettings
from jacquard.remote.bodies import MOST_MESSAGES
from jacquard.remote.operations import OPERATIONS
from jacquard.service.running.application import build_app
from jacquard.testing.server import ScriptedServer

pytestmark = pytest.mark.anyio

SIZE = 1_000_000
MOST_SECONDS = 20.0
"""Of processor time for one body; what grows faster than its length takes minutes."""
JSON = {"content-type": "application/json"}
WORLD = "whispering-forest"


@asynccontextmanager
async def serving(tmp_path, **settings):
    app = build_app(
        ServiceSettings(store=str(tmp_path / "store"), embedder="none", world=str(EXAMPLES / "en"), **settings)
    )
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client,
    ):
        yield client


async def begin(client, session_id, turn_id="t"):
    """Begin a session whose first turn waits for its reply."""
    await client.post("/api/v1/sessions", json={"session_id": session_id})
    prepared = await client.post(f"/api/v1/sessions/{session_id}/turns", json={"message": "Hello.", "turn_id": turn_id})
    assert prepared.status_code == 200, prepared.text


async def send(client, method, path, body, what):
    """Send a body; it is answered, whatever the answer."""
    began = time.process_time()
    answer = await client.request(method, path, content=json.dumps(body), headers=JSON, timeout=None)
    spent = time.process_time() - began
    assert answer.status_code < 500, (what, answer.text[:500])
    assert spent < MOST_SECONDS, (what, spent)
    if answer.status_code >= 400:
        assert len(answer.content) < 20_000, (what, len(answer.content))
    return answer


def each_a(name, value, count):
    return {f"{name}{number}": value for number in range(count)}


CONFIGS = {
    "unknown names": each_a("k", 1, 900),
    "a long unknown name": {"k" * SIZE: 1},
    "unknown names below": {"budget": each_a("k", 1, 900)},
    "wrong values": {"tags": each_a("k", 1, 900)},
    "a long wrong value": {"budget": {"max_input_tokens": "9" * 390_000}},
    "a wrong tree": {"budget": {"max_input_tokens": {"a": ["x"] * 900}}},
    "tags": {"tags": each_a("k", "v" * 400, 900)},
    "a long tag": {"tags": {"a": "v" * 390_000}},
    "instructions": {"instructions": each_a("n", "Be brief. " * 40, 900)},
    "a long instruction": {"instructions": {"n": "Be brief. " * 39_000}},
    "experiments": {"experiments": each_a("e", {"a": {"share": 1, "config": {}}}, 240)},
    "arms": {
        "experiments": {"e": each_a("a", {"share": 0.001, "config": {"budget": {"reserved_tail_tokens": 9}}}, 180)}
    },
    "words": {"redaction": {"rules": {"words": {"w": [f"Ada{number} Keller" for number in range(900)]}}}},
    "patterns": {"redaction": {"rules": {"patterns": [f"a{number}+b" for number in range(900)]}}},
    "the limit of a long message": {"limits": {"user_message_chars": 10**9}, "budget": {"max_input_tokens": 10**7}},
}


@pytest.mark.parametrize("config", CONFIGS)
async def test_no_settings_of_a_call_hold_anything_up(tmp_path, config):
    async with serving(tmp_path) as client:
        await begin(client, "s")
        await client.post("/api/v1/sessions/s/reply", json={"message": "Yes."})
        message = "word " * (SIZE // 5) if "message" in config else "And now?"
        for path, body in (("turns", {"message": message}), ("retry", {}), ("swipe", {})):
            await send(client, "POST", f"/api/v1/sessions/s/{path}", {**body, "config": CONFIGS[config]}, path)
        await client.post("/api/v1/sessions/s/reply", json={"message": "Well."})
        await begin(client, "s", "t2")


async def test_an_error_names_the_first_faults_of_settings(tmp_path):
    async with serving(tmp_path) as client:
        await begin(client, "s")
        body = {"message": "x", "config": {"budgt": {}, **each_a("k", 1, 900)}}
        told = (await client.post("/api/v1/sessions/s/turns", json=body)).json()["error"]["message"]
        assert told.startswith("budgt: is no setting; did you mean 'budget'?")
        assert len(told.splitlines()) == 11
        assert told.endswith("and 891 more faults")


@pytest.mark.parametrize(
    "operation", [each for each in OPERATIONS if each.body is not None], ids=lambda each: each.name
)
async def test_no_body_of_an_operation_holds_anything_up(tmp_path, operation):
    async with serving(tmp_path) as client:
        session_id, has_changed = "", True
        for number, (what, body) in enumerate(list_bodies(operation.body, SIZE)):
            if has_changed:
                session_id = f"s{number}"
                await begin(client, session_id)
                if operation.name in ("swipe", "retry", "edit_message"):
                    await client.post(f"/api/v1/sessions/{session_id}/reply", json={"message": "Yes."})
            ids = {"session_id": session_id, "turn_id": "t", "message_id": "t.u", "user_id": "u", "world_id": WORLD}
            path = operation.path.format(**ids, memory_id="m", entry_id="e", proposal_id="p", file_name="chat%2Fx.j2")
            has_changed = (await send(client, operation.method, path, body, what)).status_code < 400
            if has_changed:
                # What was stored is read by the next turn.
                await client.post(f"/api/v1/sessions/{session_id}/reply", json={"message": "Well."})
                await begin(client, session_id, "t2")


@pytest.fixture
def server():
    with ScriptedServer("text:Noted.") as server:
        yield server


def chat(*messages, **more):
    return {"model": "m", "messages": list(messages), **more}


def user(content="Hello.", **more):
    return {"role": "user", "content": content, **more}


def call_of(number):
    return {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}


CALLS = {
    "a long message": chat(user("word " * (SIZE // 5))),
    "many parts": chat(user([{"type": "text", "text": "a"}] * (SIZE // 30))),
    "a picture": chat(user([{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * SIZE}}])),
    "many messages": chat(*[user(f"m{number}") for number in range(SIZE // 40)]),
    "most messages": chat(
        *[each for number in range(4_900) for each in (user(f"m{number}"), {"role": "assistant", "content": "Yes."})],
        user(),
    ),
    "empty messages": chat(*[{}] * (SIZE // 3), user()),
    "many system messages": chat(*[{"role": "system", "content": "s"}] * (SIZE // 40), user()),
    "many tool results": chat(
        user(),
        {"role": "assistant", "content": None, "tool_calls": [call_of(number) for number in range(900)]},
        *[{"role": "tool", "tool_call_id": f"c{number}", "content": "r"} for number in range(900)],
    ),
    "a long tool result": chat(
        user(),
        {"role": "assistant", "content": None, "tool_calls": [call_of(0)]},
        {"role": "tool", "tool_call_id": "c0", "content": "word " * (SIZE // 5)},
    ),
    "metadata": chat(user(), metadata={f"k{number}": "v" for number in range(SIZE // 12)}),
    "tools": chat(
        user(), tools=[{"type": "function", "function": {"name": f"f{number}"}} for number in range(SIZE // 60)]
    ),
    "a long name of the session": chat(user(), metadata={"session_id": "u" * SIZE}),
    "nested lists": chat(user(), extra=[[1]] * (SIZE // 5)),
}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("call", CALLS)
async def test_no_call_of_a_chat_client_holds_anything_up(tmp_path, server, call, path):
    async with serving(tmp_path, upstream=server.base_url) as client:
        for _ in range(2):
            answer = await send(client, "POST", path, CALLS[call], call)
            if path == "/v1/chat/completions":
                assert ("x-jacquard-pass" in answer.headers) == (len(CALLS[call]["messages"]) > MOST_MESSAGES)
    assert len(server.requests) == 2


@pytest.mark.parametrize("name", ["remember", "search_memory", "nothing"])
async def test_no_call_of_a_tool_holds_anything_up(tmp_path, name):
    trees = [tree for _, tree in list_trees(SIZE)] + [{"text": "word " * (SIZE // 5)}]
    async with serving(tmp_path) as client:
        for tree in trees:
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": tree}}
            await send(client, "POST", "/mcp", call, name)
