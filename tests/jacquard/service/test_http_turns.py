"""Turns over HTTP: prepared, answered, and refused in words."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from jacquard.client.wire import decode_turn
from jacquard.config.service import ServiceSettings
from jacquard.service.running.application import build_app

WORLD = Path(__file__).parents[3] / "examples" / "whispering_forest" / "en"

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def serve(store):
    app = build_app(ServiceSettings(store=str(store), world=str(WORLD), embedder="none"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client,
    ):
        yield client


async def test_a_turn_is_prepared_and_answered(tmp_path):
    async with serve(tmp_path / "store") as client:
        assert (await client.post("/api/v1/sessions", json={"session_id": "a/b 蓝"})).status_code == 201
        address = "/api/v1/sessions/a%2Fb%20%E8%93%9D"
        answer = await client.post(f"{address}/turns", json={"message": "Hello, who are you?"})
        assert answer.status_code == 200, answer.text
        turn = decode_turn(answer.content)
        assert turn.session_id == "a/b 蓝"
        assert turn.messages[-1].content.endswith("Hello, who are you?") or "Hello" in turn.text
        reply = {"message": "<content>Nobody.</content>", "turn_id": turn.turn_id}
        done = await client.post(f"{address}/reply", json=reply)
        assert done.json()["content"] == "Nobody."
        assert (await client.get(address)).json()["turn_id"] == turn.turn_id


async def test_the_same_key_prepares_the_same_turn(tmp_path):
    async with serve(tmp_path / "store") as client:
        await client.post("/api/v1/sessions", json={"session_id": "s"})
        address, sent = "/api/v1/sessions/s/turns", {"message": "Hello."}
        first, again = [await client.post(address, json=sent, headers={"Idempotency-Key": "k1"}) for _ in range(2)]
        assert decode_turn(first.content) == decode_turn(again.content)


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/api/v1/sessions/s/turns", {"message": ""}, 422, "config"),
        ("/api/v1/sessions/s/turns", {"text": "x"}, 400, "bad_body"),
        ("/api/v1/sessions/s/turns?limit=1", {"message": "x"}, 400, "bad_query"),
        ("/api/v1/sessions/none/reply", {"message": "x"}, 404, "session_not_found"),
        ("/api/v1/sessions/s/reply", {"message": "x"}, 409, "no_pending_turn"),
        ("/api/v1/sessions/s/reply/chunks", {"chunk": "x", "chunk_index": 0, "turn_id": "t"}, 404, "turn_not_found"),
        ("/api/v1/sessions/%FF/turns", {"message": "x"}, 400, "bad_id"),
    ],
)
async def test_what_cannot_be_done_is_said(tmp_path, path, body, status, code):
    async with serve(tmp_path / "store") as client:
        await client.post("/api/v1/sessions", json={"session_id": "s"})
        answer = await client.post(path, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
