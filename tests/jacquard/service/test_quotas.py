"""What a tenant may have: what goes beyond is refused with a sentence that says what, which setting, and what to do."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx
import pytest

from jacquard import RuntimeConfig
from jacquard.config.service import ServiceSettings
from jacquard.config.tenant_sections import TenantSettings
from jacquard.remote.operations import OPERATIONS
from jacquard.service.quotas import WRITING
from jacquard.service.running.application import build_app
from jacquard.testing.server import ScriptedServer

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def client(tmp_path, quota: TenantSettings, **fields):
    given = ServiceSettings(store=str(tmp_path / "store"), embedder="none", each_tenant=quota, **fields)
    app = build_app(given, RuntimeConfig(profile="assistant"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", timeout=600) as http,
    ):
        yield http


async def prepare(http, session: str, turn: str):
    sent = {"message": "Where is the key?", "turn_id": turn}
    return await http.post(f"/api/v1/sessions/{session}/turns", json=sent)


UNCHECKED = {
    "a turn that has begun can be ended": "commit_assistant_message commit_assistant_chunk finalize_assistant_message "
    "abort_assistant_message answer_turn record_model_usage",
    "it takes away": "erase forget_memory archive_session open_archived revoke_token undo_memory_edit unpin_memory "
    "reject_proposal",
    "it writes files that the operator owns": "run_golden_cases add_golden_case",
    "it names what is there": "fork switch rollback pin_memory change_memories",
    "it writes nothing": "estimate_messages assemble search_memory what_if lint_world_files preview_templates match_lore",
    "an administrator does it": "create_token",
}
"""Operations other than reads that no limit of a tenant stops, by the reason."""


def test_every_operation_that_writes_is_checked_or_has_a_reason():
    writing = {each.name for each in OPERATIONS if each.method != "GET"}
    assert writing == WRITING | {name for names in UNCHECKED.values() for name in names.split()}
    assert not WRITING & {name for names in UNCHECKED.values() for name in names.split()}


async def test_no_more_sessions_than_a_tenant_may_have(tmp_path):
    async with client(tmp_path, TenantSettings(sessions=1)) as http:
        assert (await http.post("/api/v1/sessions", json={"session_id": "a"})).status_code == 201
        assert (await prepare(http, "a", "t1")).status_code < 300
        for refused in (await http.post("/api/v1/sessions", json={"session_id": "b"}), await prepare(http, "c", "t1")):
            told = refused.json()["error"]
            assert (refused.status_code, told["code"]) == (403, "quota_exceeded")
            assert "as many sessions as it may: 1 (service.each_tenant.sessions)" in told["message"]
            assert "jacquard memory erase" in told["message"]
            assert told["facts"]["limit"] == 1
        assert (await http.get("/api/v1/sessions")).json()["items"] == ["a"]
        # What has begun can be ended.
        assert (await http.post("/api/v1/sessions/a/reply", json={"message": "In the well."})).status_code < 300


async def test_turns_a_minute(tmp_path):
    async with client(tmp_path, TenantSettings(turns_a_minute=2)) as http:
        assert (await http.post("/api/v1/sessions", json={"session_id": "a"})).status_code == 201
        answers = [await prepare(http, "a", f"t{number}") for number in range(3)]
        assert [each.status_code for each in answers][:2] == [200, 200]
        assert (answers[2].status_code, answers[2].json()["error"]["code"]) == (429, "turn_rate")
        assert 1 <= int(answers[2].headers["retry-after"]) <= 60


async def test_stored_bytes_and_entries(tmp_path):
    async with client(tmp_path, TenantSettings(stored_bytes=10)) as http:
        assert (await http.post("/api/v1/sessions", json={"session_id": "a"})).status_code == 201
    async with client(tmp_path, TenantSettings(stored_bytes=10)) as http:
        refused = await prepare(http, "a", "t1")
        assert "service.each_tenant.stored_bytes" in refused.json()["error"]["message"]
    async with client(tmp_path, TenantSettings(entries=1)) as http:
        sent = {"text": "The bell is cracked."}
        assert (await http.post("/api/v1/sessions/a/memory", json=sent)).status_code < 300
    async with client(tmp_path, TenantSettings(entries=1)) as http:
        refused = await http.post("/api/v1/sessions/a/memory", json=sent)
        assert (refused.status_code, refused.json()["error"]["facts"]["what"]) == (403, "entries")


@pytest.fixture
def server():
    with ScriptedServer("text:Noted.") as server:
        yield server


async def test_a_call_of_the_proxy_beyond_a_limit_passes_through_without_the_engine(tmp_path, server):
    async with client(tmp_path, TenantSettings(turns_a_minute=1), upstream=server.base_url) as http:
        for number in range(2):
            body = {"model": "m", "messages": [{"role": "user", "content": f"Hello {number}."}]}
            answer = await http.post("/v1/chat/completions", json=body, headers={"x-jacquard-session": "s"})
            assert answer.status_code == 200
        assert answer.headers["x-jacquard-error"] == "turn_rate"
        turns = (await http.get("/api/v1/sessions/s/turns")).json()["items"]
        assert len(turns) == 1


def chat(*more, said="Hello."):
    return {"model": "m", "messages": [{"role": "user", "content": said}, *more]}


def tool_messages(call_id="c1", result="It is sunny."):
    call = {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    return (
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": result},
    )


@pytest.fixture
def tool_server():
    with ScriptedServer("tool:weather {}", "text:Noted.") as server:
        yield server


async def test_a_made_up_tool_result_counts_as_the_turn_that_it_begins(tmp_path, tool_server):
    quota = TenantSettings(turns_a_minute=3, sessions=1)
    async with client(tmp_path, quota, upstream=tool_server.base_url) as http:

        async def ask(session, body):
            answer = await http.post("/v1/chat/completions", json=body, headers={"x-jacquard-session": session})
            return answer.headers.get("x-jacquard-error", "")

        assert await ask("s", chat()) == ""
        # The result of a tool that the model called goes on with its turn.
        assert await ask("s", chat(*tool_messages())) == ""
        assert await ask("other", chat(*tool_messages("c4"))) == "quota_exceeded"
        assert await ask("s", chat(*tool_messages("c2"), said="Made up.")) == ""
        assert await ask("s", chat(*tool_messages("c3"), said="Made up again.")) == "turn_rate"
        assert (await http.get("/api/v1/sessions")).json()["items"] == ["s"]


async def test_a_tool_result_is_stored_within_the_limits_of_its_tenant(tmp_path):
    async with client(tmp_path, TenantSettings()) as http:
        assert (await http.post("/api/v1/sessions", json={"session_id": "a"})).status_code == 201
    async with client(tmp_path, TenantSettings(stored_bytes=10)) as http:
        sent = {"tool_call": {"tool_call_id": "c", "tool": "look"}, "result": "All is quiet."}
        refused = await http.post("/api/v1/sessions/a/tool-calls", json=sent)
        assert (refused.status_code, refused.json()["error"]["facts"]["what"]) == (403, "stored_bytes")


async def test_archived_sessions_over_http(tmp_path):
    async with client(tmp_path, TenantSettings()) as http:
        assert (await http.post("/api/v1/sessions", json={"session_id": "a"})).status_code == 201
        await prepare(http, "a", "t1")
        archived = (await http.put("/api/v1/sessions/a/archive")).json()
        assert (archived["session_id"], archived["rows"] > 3) == ("a", True)
        assert (await http.put("/api/v1/sessions/a/archive")).json()["archived_at"] == archived["archived_at"]
        assert [each["session_id"] for each in (await http.get("/api/v1/archives")).json()] == ["a"]
        assert (await http.delete("/api/v1/sessions/a/archive")).status_code == 204
        assert (await http.get("/api/v1/archives")).json() == []
        assert (await http.put("/api/v1/sessions/none/archive")).status_code == 404
