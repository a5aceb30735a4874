"""Turns over HTTP: prepared, answered, and refused in words."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from jacquard.config.service import ServiceSettings
from jacquard.remote.wire import PARTS, SentTurn
from jacquard.service.running.application import build_app
from mnemosyne.core import codec

WORLDS = Path(__file__).parents[3] / "examples" / "whispering_forest"
INPUTS = {
    "zh": "那把钥匙是不是开启神庙的?我记得之前提到过。",
    "en": "Is that the key that opens the temple? I remember it came up before.",
}
MOST_BYTES = 25_000
MOST_BYTES_OF_A_REPORT = 2_500

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def serve(store, locale="en"):
    app = build_app(ServiceSettings(store=str(store), world=str(WORLDS / locale), embedder="none"))
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
        turn = codec.decode(answer.content, SentTurn)
        assert turn.session_id == "a/b 蓝"
        assert "Hello, who are you?" in turn.messages[-1].content
        reply = {"message": "<content>Nobody.</content>", "turn_id": turn.turn_id}
        done = await client.post(f"{address}/reply", json=reply)
        assert done.json()["content"] == "Nobody."
        assert (await client.get(address)).json()["turn_id"] == turn.turn_id


async def test_the_same_key_prepares_the_same_turn(tmp_path):
    async with serve(tmp_path / "store") as client:
        await client.post("/api/v1/sessions", json={"session_id": "s"})
        address, sent = "/api/v1/sessions/s/turns", {"message": "Hello."}
        first, again = [await client.post(address, json=sent, headers={"Idempotency-Key": "k1"}) for _ in range(2)]
        assert first.json() == again.json()


async def prepare_example(client, locale, **query):
    await client.post("/api/v1/sessions", json={"session_id": "s"})
    answer = await client.post("/api/v1/sessions/s/turns", json={"message": INPUTS[locale]}, params=query)
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.parametrize("locale", INPUTS)
async def test_a_turn_is_answered_with_its_messages_its_ids_and_a_short_report(tmp_path, locale):
    async with serve(tmp_path / "store", locale) as client:
        answer = await prepare_example(client, locale)
        turn = answer.json()
        assert not set(turn) & set(PARTS)
        more = len(answer.content) - len(json.dumps(turn["messages"], ensure_ascii=False).encode())
        assert more <= MOST_BYTES_OF_A_REPORT
        if locale == "zh":
            # The English prompt alone takes nearly as much.
            assert len(answer.content) <= MOST_BYTES
        whole = (await client.get(f"/api/v1/sessions/s/turns/{turn['turn_id']}/receipt")).json()["report"]
        short = turn["short_report"]
        assert short["budget"] == whole["budget"]
        assert [each["code"] for each in short["degradations"]] == ["no_embedder"]
        assert [each["entry_id"] for each in short["memories"]] == whole["stream_b"]["selected"]
        assert all(each["score"] > 0 and 0 < len(each["line"]) <= 80 for each in short["memories"])
        assert "total" in short["timings_ms"]


async def test_parts_of_a_turn_are_sent_when_they_are_asked_for(tmp_path):
    async with serve(tmp_path / "store") as client:
        turn = (await prepare_example(client, "en", include="package,report")).json()
        assert set(turn) & set(PARTS) == {"package", "report"}
        address = f"/api/v1/sessions/s/turns/{turn['turn_id']}"
        read = (await client.get(address, params=[("include", "text"), ("include", "plan")])).json()
        assert set(read) & set(PARTS) == {"text", "plan"}
        assert read["messages"] == turn["messages"]
        assert set(PARTS) < set((await client.get(f"{address}?include=all")).json())
        await client.post("/api/v1/sessions/s/reply", json={"message": "Yes.", "turn_id": turn["turn_id"]})
        for name in ("swipe", "retry"):
            again = await client.post(f"/api/v1/sessions/s/{name}?include=evidences", json={})
            assert set(again.json()) & set(PARTS) == {"evidences"}


@pytest.mark.parametrize("path", ["turns", "swipe", "retry", "turns/t"])
@pytest.mark.parametrize(("include", "wrong"), [("text,packge", "packge"), ("", ""), ("text,,plan", "")])
async def test_a_part_that_there_is_not_is_named_with_those_that_there_are(tmp_path, path, include, wrong):
    async with serve(tmp_path / "store") as client:
        method = "GET" if path == "turns/t" else "POST"
        sent = {"params": {"include": include}} | ({"json": {"message": "Hello."}} if path == "turns" else {})
        answer = await client.request(method, f"/api/v1/sessions/s/{path}", **({"json": {}} | sent))
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert (error["code"], error["facts"]) == ("bad_query", {"name": "include"})
        assert error["message"].startswith(f"include names {wrong!r}; choose from plan, text, package, ")


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


@pytest.mark.parametrize(
    "options", [{"confidence": 4.1e16}, {"confidence": -0.1}, {"ttl_seconds": 0}, {"ttl_seconds": 1e300}]
)
async def test_numbers_of_evidence_that_are_out_of_range_are_refused(tmp_path, options):
    async with serve(tmp_path / "store") as client:
        await client.post("/api/v1/sessions", json={"session_id": "s"})
        sent = {"content": "Rain.", "source": {"kind": "tool", "name": "weather"}, "evidence_type": "tool_result"}
        answer = await client.post("/api/v1/sessions/s/evidence", json=sent | {"options": options})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "config")
        assert (await client.get("/api/v1/sessions/s/evidence")).json() == []
