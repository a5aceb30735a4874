"""Models that take one system message, or none, get our text inside the client's; the player sees no error."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import httpx
import pytest
from served import serve_app
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from jacquard.config.service import ProxySettings, ServiceSettings
from jacquard.service.running.application import build_app

pytestmark = pytest.mark.anyio
FACT = "The spare lens lies below the third step of the tower."
ASKED = "Where does the spare lens lie, in the tower?"


class StrictServer:
    """A model server that refuses a call as `refuse` says: None, or status and sentence (200: within a stream that has begun)."""

    def __init__(self, refuse):
        self.refuse, self.calls, self.refused = refuse, [], 0

    async def answer(self, request):
        body = await request.json()
        self.calls.append(body)
        fault = self.refuse(body["messages"])
        if fault is None:
            return JSONResponse({"choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}}]})
        self.refused += 1
        status, sentence = fault
        if not sentence:
            return _EmptyThenBroken(media_type="text/event-stream")
        error = {"error": {"message": sentence, "code": status}}
        if status != 200:
            return JSONResponse(error, status)
        return StreamingResponse(iter([f"event: error\ndata: {json.dumps(error)}\n\n"]), media_type="text/event-stream")


class _EmptyThenBroken(Response):
    """The answer of llama.cpp's Python server: an empty stream that ends, then an error, for which the connection is closed."""

    async def __call__(self, scope, receive, send):
        await super().__call__(scope, receive, send)
        raise ValueError("'raise_exception' is undefined")


def only_first(messages, status=500, sentence="Jinja Exception: System message must be at the beginning."):
    late = any(each["role"] in ("system", "developer") for each in messages[1:])
    return (status, sentence) if late else None


def in_a_stream(messages):
    return only_first(
        messages, 200, "Error rendering prompt with jinja template: only one system message is supported."
    )


def unsaid(messages):
    return only_first(messages, 200, "")


def in_chinese(messages):
    return only_first(messages, 400, "messages 参数非法：只能有一条系统消息")


def taking_turns(messages):
    roles = [each["role"] for each in messages if each["role"] != "system"]
    goes = roles == ["user", "assistant"] * (len(roles) // 2) + ["user"] and only_first(messages) is None
    return None if goes else (400, "Conversation roles must alternate user/assistant/user/assistant/...")


def no_system(messages):
    return (400, "System role not supported") if any(each["role"] == "system" for each in messages) else None


@asynccontextmanager
async def playing(tmp_path, refuse, **proxy):
    server = StrictServer(refuse)
    with serve_app(Starlette(routes=[Route("/v1/chat/completions", server.answer, methods=["POST"])])) as port:
        settings = ServiceSettings(
            store=str(tmp_path / "store"),
            upstream=f"http://127.0.0.1:{port}/v1",
            embedder="none",
            proxy=ProxySettings(**proxy),
        )
        app = build_app(settings)
        transport = httpx.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http,
        ):
            yield server, http


async def ask(http, *messages, model="m"):
    headers = {"X-Jacquard-Session": "tower"}
    body = {"model": model, "messages": list(messages)}
    answer = await http.post("/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert "x-jacquard-error" not in answer.headers
    assert answer.json()["choices"][0]["message"]["content"] == "ok"
    return answer


def user(text):
    return {"role": "user", "content": text}


@pytest.mark.parametrize("card", ["You keep the harbour.", [{"type": "text", "text": "You keep the harbour."}]])
@pytest.mark.parametrize("refuse", [only_first, in_a_stream, unsaid, in_chinese, taking_turns])
async def test_memory_stands_in_the_clients_system_message_where_a_second_is_refused(tmp_path, refuse, card):
    own = {"role": "system", "content": card}
    async with playing(tmp_path, refuse) as (server, http):
        await ask(http, own, user(FACT))
        for _ in range(2):
            await ask(http, own, user(ASKED))
            first, *others = server.calls[-1]["messages"]
            assert others == [user(ASKED)]
            text = first["content"] if isinstance(card, str) else first["content"][1]["text"]
            assert FACT in text
            assert first["content"][: len(card)] == card
        assert server.refused == 1, "it is remembered"
        await ask(http, own, user(ASKED), model="another")
        assert server.refused == 2, "another model has another template"


@pytest.mark.parametrize("refuse", [only_first, in_a_stream])
async def test_the_receipt_of_a_call_that_was_made_again_shows_the_place_that_was_used(tmp_path, refuse):
    own = {"role": "system", "content": "You keep the harbour."}
    async with playing(tmp_path, refuse) as (server, http):
        await ask(http, own, user(FACT))
        receipts = []
        for _ in range(2):
            answer = await ask(http, own, user(ASKED))
            receipts.append((await http.get(answer.headers["x-jacquard-receipt"])).json()["report"]["sent"]["texts"])
        page = await http.get(answer.headers["x-jacquard-page"])
    assert server.refused == 1
    places = [[(each["message"], each["role"], each["place"]) for each in texts] for texts in receipts]
    assert places[0] == places[1] == [(0, "system", ""), (0, "system", "changing"), (1, "user", "")]
    assert FACT in page.text


async def test_memory_stands_before_the_users_words_where_no_system_message_is_taken(tmp_path):
    async with playing(tmp_path, no_system) as (server, http):
        await ask(http, user(FACT))
        await ask(http, user(ASKED))
    [said] = server.calls[-1]["messages"]
    assert FACT in said["content"]
    assert said["content"].endswith(ASKED)


async def test_a_place_in_the_clients_system_message_can_be_set(tmp_path):
    async with playing(tmp_path, only_first, place="merged") as (server, http):
        await ask(http, {"role": "system", "content": "You keep the harbour."}, user(FACT))
        await ask(http, {"role": "system", "content": "You keep the harbour."}, user(ASKED))
    assert not server.refused
    assert FACT in server.calls[-1]["messages"][0]["content"]


@pytest.mark.parametrize("fault", [(400, "max_tokens must be at least 1"), (429, "too many roles"), (503, "busy")])
async def test_what_is_refused_for_another_reason_is_the_clients_to_see(tmp_path, fault):
    async with playing(tmp_path, lambda messages: fault if messages[-1]["content"] == ASKED else None) as (
        server,
        http,
    ):
        await ask(http, user(FACT))
        body = {"model": "m", "messages": [user(ASKED)]}
        answer = await http.post("/v1/chat/completions", json=body, headers={"X-Jacquard-Session": "tower"})
    assert (answer.status_code, answer.json()["error"]["message"]) == fault
    assert len(server.calls) == 2
