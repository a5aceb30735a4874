"""Marks of evaluators over HTTP: what a prompt should have had, and the labelled set that is made of it."""

from __future__ import annotations

import io
import zipfile
from contextlib import asynccontextmanager

import httpx
import pytest
from anyio import to_thread

from evals.dataset import read_set
from jacquard import RuntimeConfig
from jacquard.config.service import ServiceSettings
from jacquard.service.running.application import build_app

pytestmark = pytest.mark.anyio
FACTS = ("The boat key hangs behind the blue clock.", "船夫的女儿叫阿苇。")


@asynccontextmanager
async def serving(folder, **settings):
    service = ServiceSettings(store=str(folder / "store"), embedder="none", **settings)
    app = build_app(service, RuntimeConfig(profile="assistant"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
    ):
        await client.post("/sessions", json={"session_id": "s"})
        yield client


def unpack(data, folder):
    with zipfile.ZipFile(io.BytesIO(data)) as pack:
        pack.extractall(folder)
    return read_set(folder)


async def say(client, turn_id, text):
    await client.post("/sessions/s/turns", json={"message": text, "turn_id": turn_id})
    await client.post("/sessions/s/reply", json={"message": f"Reply to {turn_id}.", "turn_id": turn_id})


async def test_marks_become_a_set_that_evaluation_reads(tmp_path):
    async with serving(tmp_path) as client:
        boat, daughter = [
            (await client.post("/sessions/s/memory", json={"text": each})).json()["edit_id"] for each in FACTS
        ]
        await say(client, "t1", "Hello.")
        await say(client, "t2", "Where is the boat key?")
        await say(client, "t3", "Thank you.")
        empty = await client.get("/sessions/s/marks/export")
        assert (empty.status_code, "has no marks yet" in empty.text) == (422, True)
        made = await client.put(f"/sessions/s/turns/t2/marks/{boat}", json={"wanted": True})
        assert (made.status_code, made.json()["wanted"], made.json()["author"]) == (200, True, "host")
        await client.put(f"/sessions/s/turns/t2/marks/{daughter}", json={"wanted": False})
        await client.put("/sessions/s/turns/t2/marks/t1.u", json={"wanted": True})
        assert (await client.put("/sessions/s/turns/t2/marks/t1.u", json={"wanted": None})).json() is None
        marks = (await client.get("/sessions/s/marks")).json()
        assert [(each["turn_id"], each["memory_id"], each["wanted"]) for each in marks] == [
            ("t2", boat, True),
            ("t2", daughter, False),
        ]
        given = await client.get("/sessions/s/marks/export")
        assert given.headers["content-type"] == "application/octet-stream"
        found = await to_thread.run_sync(unpack, given.content, tmp_path / "set")
        (query,) = found.queries
        assert (query.text, [each.text for each in query.history]) == (
            "Where is the boat key?",
            ["Hello.", "Reply to t1."],
        )
        texts = {each.document_id: each.text for each in found.pools()[0].documents}
        assert {texts[name]: grade for name, grade in query.relevant.items()} == {FACTS[0]: 1, FACTS[1]: 0}
        assert sorted(texts.values()) == sorted([*FACTS, "Hello.", "Reply to t1."])


async def test_a_mark_changes_no_prompt_and_a_wrong_one_is_refused(tmp_path):
    async with serving(tmp_path) as client:
        made = await client.post("/sessions/s/memory", json={"text": FACTS[0]})
        await say(client, "t1", "Where is the boat key?")
        dry = {"message": "And the key of the boat?", "dry_run": True}
        before = (await client.post("/sessions/s/turns", json=dry)).json()["messages"]
        listed = (await client.get("/sessions/s/memory")).json()
        log = (await client.get("/sessions/s/memory-log")).json()
        await client.put(f"/sessions/s/turns/t1/marks/{made.json()['edit_id']}", json={"wanted": False})
        assert (await client.post("/sessions/s/turns", json=dry)).json()["messages"] == before
        assert (await client.get("/sessions/s/memory")).json() == listed
        assert (await client.get("/sessions/s/memory-log")).json() == log
        for path in ("turns/t1/marks/nothing", f"turns/none/marks/{made.json()['edit_id']}"):
            assert (await client.put(f"/sessions/s/{path}", json={"wanted": True})).status_code == 404
        assert (await client.get("/sessions/none/marks")).status_code == 404
