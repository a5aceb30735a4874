"""Sizes of the parts of a body: what is larger is refused with its place and its limit, and nothing of it is done."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx
import pytest

from jacquard import RuntimeConfig
from jacquard.config.service import ServiceSettings
from jacquard.service.running.application import build_app

pytestmark = pytest.mark.anyio
SOURCE = {"kind": "tool", "name": "x"}


@asynccontextmanager
async def serve(tmp_path):
    app = build_app(ServiceSettings(store=str(tmp_path / "store"), embedder="none"), RuntimeConfig(profile="assistant"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client,
    ):
        await client.post("/api/v1/sessions", json={"session_id": "s"})
        yield client


def tasks(count):
    return [{"task_id": f"t{number}", "name": "n", "status": "pending"} for number in range(count)]


@pytest.mark.parametrize(
    ("method", "path", "body", "sentence"),
    [
        ("PUT", "sessions/s/tasks", {"tasks": tasks(1_001)}, "tasks has 1,001 entries; send at most 1,000 at once."),
        (
            "PUT",
            "sessions/s/tasks",
            {"tasks": [{**tasks(1)[0], "depends_on": ["a"] * 1_001}]},
            "tasks.depends_on has 1,001 entries; send at most 1,000 at once.",
        ),
        (
            "PUT",
            "sessions/s/tasks",
            {"tasks": [{**tasks(1)[0], "name": "n" * 20_001}]},
            "tasks.name has 20,001 characters; it may have at most 20,000.",
        ),
        (
            "POST",
            "sessions/s/adopt",
            {"messages": ["m"] * 25_001},
            "messages has 25,001 entries; send at most 25,000 at once.",
        ),
        (
            "POST",
            "sessions/s/evidence",
            {"content": "c", "evidence_type": "tool_result", "source": {**SOURCE, "name": "n" * 20_001}},
            "source.name has 20,001 characters; it may have at most 20,000.",
        ),
        (
            "POST",
            "sessions/s/evidence",
            {
                "content": "c",
                "evidence_type": "tool_result",
                "source": SOURCE,
                "metadata": {f"k{number}": 1 for number in range(1_001)},
            },
            "metadata has 1,001 entries; send at most 1,000 at once.",
        ),
        (
            "POST",
            "sessions/s/turns",
            {"message": "Hello.", "config": {"tags": {f"k{number}": "v" for number in range(1_000)}}},
            "config has more than 1,000 settings; the settings file of the service takes more.",
        ),
        (
            "POST",
            "sessions/s/turns",
            {"message": "Hello.", "config": {"tags": {"a": "v" * 400_000}}},
            "config has 400,017 characters; a call may have at most 400,000.",
        ),
    ],
)
async def test_too_much_is_refused_with_its_place(tmp_path, method, path, body, sentence):
    async with serve(tmp_path) as client:
        answer = await client.request(method, f"/api/v1/{path}", json=body)
        assert (answer.status_code, answer.json()["error"]["message"]) == (422, sentence)
        assert (await client.get("/api/v1/sessions/s")).json()["version"] == 1
        assert (await client.get("/api/v1/sessions/s/tasks")).json() == []


async def test_as_much_as_there_may_be_is_taken(tmp_path):
    async with serve(tmp_path) as client:
        assert (await client.put("/api/v1/sessions/s/tasks", json={"tasks": tasks(1_000)})).status_code == 200
        long = {"content": "c" * 100_000, "evidence_type": "tool_result", "source": SOURCE}
        long["metadata"] = {"note": "n" * 30_000, "items": list(range(5_000))}
        assert (await client.post("/api/v1/sessions/s/evidence", json=long)).status_code == 200


async def test_an_answer_does_not_repeat_any_number_of_faults(tmp_path):
    messages = [{"role": "usr", "content": "x", "message_id": f"m{number}"} for number in range(5_000)]
    document = {"schema_version": "1.0", "session": {"session_id": "d", "messages": messages}}
    async with serve(tmp_path) as client:
        answer = await client.put("/api/v1/sessions/d/document", json={"document": document})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (422, "schema_validation")
        assert error["message"].startswith("session.messages[0].role: 'usr' is none of system, user, assistant, tool\n")
        assert error["facts"]["faults"][1] == "session.messages[1].role: 'usr' is none of system, user, assistant, tool"
        assert len(answer.content) < 30_000
