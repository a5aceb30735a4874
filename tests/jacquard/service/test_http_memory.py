"""The memory verbs over HTTP: the same as in Python, in the scope and for the viewer of the token."""

from __future__ import annotations

import httpx
import pytest

from jacquard import RuntimeConfig
from jacquard.client import RemoteEngine
from jacquard.config.service import ServiceSettings
from jacquard.core.errors import MemoryNotFoundError
from jacquard.service.access.records import using_records
from jacquard.service.running.application import build_app
from jacquard.service.values import Scope

pytestmark = pytest.mark.anyio
FACT, FIXED = "The boat key hangs behind the blue clock.", "The boat key lies under the red mat."


async def test_a_memory_goes_all_its_ways(tmp_path):
    app = build_app(ServiceSettings(store=str(tmp_path / "store"), embedder="none"), RuntimeConfig(profile="assistant"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
    ):
        await client.post("/sessions", json={"session_id": "s"})
        headers = {"Idempotency-Key": "k"}
        body, ana = {"text": FACT, "title": "boat"}, {"author": "ana"}
        first, again = [
            await client.post("/sessions/s/memory", json=body, headers=headers, params=ana) for _ in range(2)
        ]
        assert first.status_code == 201
        assert first.json() == again.json()
        assert first.json()["author"] == "ana"
        memory = f"/sessions/s/memory/{first.json()['edit_id']}"
        assert (await client.get(memory)).json()["text"] == FACT
        assert (await client.post(f"{memory}/pin", json={})).status_code == 200
        edited = (await client.request("PATCH", memory, json={"text": FIXED})).json()
        found = (await client.post("/sessions/s/memory/search", json={"text": "boat key"})).json()
        assert [(each["text"], each["pinned"]) for each in found] == [(FIXED, True)]
        assert (await client.post(f"/sessions/s/memory/{edited['edit_id']}/unpin", json={})).status_code == 200
        found = (await client.post("/sessions/s/memory/search", json={"text": "boat key"})).json()
        assert [each["text"] for each in found] == [FIXED]
        undone = await client.post(f"/sessions/s/memory-log/{edited['edit_id']}/undo", json={})
        assert undone.json()["undone_at"]
        log = (await client.get("/sessions/s/memory-log")).json()
        assert [each["action"] for each in log] == ["remember", "pin", "edit", "pin", "unpin"]
        assert (await client.delete(memory)).json()["evidence_ids"]
        missing = await client.get(memory)
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "memory_not_found")


async def test_a_host_acts_for_a_character(tmp_path):
    app = build_app(ServiceSettings(store=str(tmp_path / "store"), embedder="none"), RuntimeConfig(profile="assistant"))
    async with (
        app.router.lifespan_context(app),
        RemoteEngine("http://127.0.0.1", transport=httpx.ASGITransport(app)) as engine,
    ):
        await engine.prepare_turn("s", "Hello.")
        elara, tom = engine.verbs(author="ana", viewer="elara"), engine.verbs(viewer="tom")
        made = await elara.remember("s", FACT, key="k")
        assert await elara.remember("s", FACT, key="k") == made
        assert await tom.search("s", "boat key") == ()
        with pytest.raises(MemoryNotFoundError):
            await tom.memory("s", made.edit_id)
        assert [head.session_id for head in await tom.sessions()] == ["s"]
        assert await elara.forget("s", made.edit_id, reason="asked for") == (made.edit_id,)


async def test_a_viewer_remembers_for_itself(tmp_path):
    app = build_app(
        ServiceSettings(store=str(tmp_path / "store"), embedder="none", tenants=True),
        RuntimeConfig(profile="assistant"),
    )
    headers = []
    async with using_records(str(tmp_path / "store")) as records:
        for viewer in ("elara", "tom"):
            token, _ = await records.tokens.create("north", Scope.PLAY, viewer=viewer)
            headers.append({"Authorization": f"Bearer {token}"})
        token, _ = await records.tokens.create("north", Scope.PLAY)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
    ):
        await client.post("/sessions", json={"session_id": "s"}, headers={"Authorization": f"Bearer {token}"})
        made = await client.post(
            "/sessions/s/memory", json={"text": FACT}, params={"author": "tom"}, headers=headers[0]
        )
        # With tenants the log names the token, whatever the request says.
        assert made.json()["author"] == headers[0]["Authorization"].split("_")[1]
        search = {"text": "boat key"}
        own = await client.post("/sessions/s/memory/search", json=search, headers=headers[0])
        assert [each["text"] for each in own.json()] == [FACT]
        assert (await client.post("/sessions/s/memory/search", json=search, headers=headers[1])).json() == []
        other = await client.get("/sessions/s/memory-log", params={"viewer": "tom"}, headers=headers[0])
        assert (other.status_code, other.json()["error"]["code"]) == (403, "viewer_bound")
        hidden = await client.delete(f"/sessions/s/memory/{made.json()['edit_id']}", headers=headers[1])
        assert hidden.status_code == 404
        refused = await client.put("/sessions/s/state", json={"changes": {"a": 1}}, headers=headers[0])
        assert refused.status_code == 403
