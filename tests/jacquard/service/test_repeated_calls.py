"""A call that comes again with its idempotency key makes nothing twice; one for which this cannot be says so."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx
import pytest

from jacquard import RuntimeConfig
from jacquard.config.service import ServiceSettings
from jacquard.remote.operations import OPERATIONS
from jacquard.service.running.application import build_app

pytestmark = pytest.mark.anyio
SOURCE = {"kind": "tool", "name": "map"}
BODIES = {
    "start_session": {"session_id": "new"},
    "prepare_turn": {"message": "And then?"},
    "retry": {},
    "assemble": {"tail": []},
    "commit_assistant_message": {"message": "Good day.", "turn_id": "t"},
    "commit_assistant_chunk": {"chunk": "a", "chunk_index": 0},
    "finalize_assistant_message": {"turn_id": "t"},
    "abort_assistant_message": {},
    "record_tool_call": {"tool_call": {"tool_call_id": "c", "name": "map", "status": "success"}},
    "record_model_usage": {"model_usage": {"model_usage_id": "u", "provider": "p", "model": "m"}},
    "fork": {"turn_id": "t"},
    "switch": {"branch_id": "main"},
    "adopt_messages": {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]},
    "summarize": {},
    "consolidate": {},
    "ingest": {"content": "The map shows a mill.", "source": SOURCE, "evidence_type": "tool_result"},
    "remember": {"facts": [{"fact_id": "f", "kind": "core_profile", "text": "Plays at night."}]},
    "erase": {"session_id": "s", "dry_run": True},
    "estimate_messages": {"messages": [{"role": "user", "content": "x"}]},
    "search_memory": {"text": "mill"},
    "remember_memory": {"text": "The mill is closed."},
    "pin_memory": {},
    "undo_memory_edit": {},
    "accept_proposal": {},
    "reject_proposal": {},
    "continue_session": {"new_session_id": "heir"},
    "add_lore": {"text": "A mill."},
    "lint_world_files": {},
    "preview_templates": {},
    "match_lore": {"text": "A mill."},
    "what_if": {"config": {"layout": "cache_first"}},
}
"""A body for every operation that takes a key."""
NEED_MORE = {"summarize", "consolidate", "add_lore", "accept_proposal", "reject_proposal", "lint_world_files"}
"""They need a model, a world of the store, or what a model proposed: without, both calls are refused alike."""


@asynccontextmanager
async def serve(folder):
    app = build_app(ServiceSettings(store=str(folder / "store"), embedder="none"), RuntimeConfig(profile="assistant"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client,
    ):
        await client.post("/api/v1/sessions", json={"session_id": "s"})
        await client.post("/api/v1/sessions/s/turns", json={"message": "Hello.", "turn_id": "t"})
        await client.post("/api/v1/sessions/s/reply", json={"message": "Good day.", "turn_id": "t"})
        yield client


KEYED = [each for each in OPERATIONS if each.method == "POST" and each.is_repeatable]


@pytest.mark.parametrize("operation", KEYED, ids=lambda each: each.name)
async def test_the_same_call_again_has_the_same_answer_and_makes_nothing_twice(tmp_path, operation):
    async with serve(tmp_path) as client:
        memory = await client.post("/api/v1/sessions/s/memory", json={"text": "The boat is red."})
        ids = {"session_id": "s", "turn_id": "t", "user_id": "ana", "world_id": "w"}
        ids |= {name: memory.json()["edit_id"] for name in ("memory_id", "edit_id", "proposal_id")}
        path = operation.path.format(**ids)
        if operation.name in ("retry", "commit_assistant_chunk", "abort_assistant_message"):
            await client.post("/api/v1/sessions/s/turns", json={"message": "Next.", "turn_id": "t2"})
        told, made = [], []
        for _ in range(2):
            answer = await client.post(path, json=BODIES[operation.name], headers={"Idempotency-Key": "key 1"})
            assert answer.status_code < 400 or operation.name in NEED_MORE, answer.text
            told.append((answer.status_code, without_versions(answer)))
            made.append(await count(client))
        assert told[0] == told[1]
        assert made[0] == made[1]


def without_versions(answer):
    """The answer without what tells of the time of the call: the version of the session, whether evidence was new."""
    value = answer.json() if answer.content else None
    if not isinstance(value, dict):
        return value
    return {name: each for name, each in value.items() if name not in ("version", "is_new")}


async def count(client):
    """How many turns, branches, evidence items, edits and sessions there are."""
    found = []
    for path in ("branches", "turns", "evidence", "memory-log"):
        found.append(len((await client.get(f"/api/v1/sessions/s/{path}")).json()))
    return [*found, len((await client.get("/api/v1/sessions")).json()["items"])]


@pytest.mark.parametrize("name", [each.name for each in OPERATIONS if not each.is_repeatable])
async def test_what_would_be_done_twice_takes_no_key(tmp_path, name):
    operation = next(each for each in OPERATIONS if each.name == name)
    async with serve(tmp_path) as client:
        answer = await client.post(
            operation.path.format(session_id="s", memory_id="m", world_id="w", turn_id="t"),
            json={},
            headers={"Idempotency-Key": "key 1"},
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "not_repeatable")


async def test_a_reply_with_a_key_names_its_turn(tmp_path):
    async with serve(tmp_path) as client:
        answer = await client.post(
            "/api/v1/sessions/s/reply", json={"message": "Hello."}, headers={"Idempotency-Key": "key 1"}
        )
        assert answer.status_code == 422
        assert "turn_id" in answer.json()["error"]["message"]


def test_the_description_names_the_key_where_it_acts():
    from jacquard.service.http.openapi import build_openapi

    described = build_openapi(OPERATIONS, "1")["paths"]
    for operation in OPERATIONS:
        parameters = described[operation.path][operation.method.lower()]["parameters"]
        named = "Idempotency-Key" in [each["name"] for each in parameters]
        assert named == (operation.method == "POST" and operation.is_repeatable), operation.name
