"""Worlds over HTTP: what a GET gives, a PUT takes; a pack is checked whole, and a refusal says what to do."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from jacquard.config.service import ServiceSettings
from jacquard.remote.operations import OPERATIONS
from jacquard.service.http.openapi import build_openapi
from jacquard.service.running.application import build_app

pytestmark = pytest.mark.anyio
FOREST = Path(__file__).parents[3] / "examples" / "whispering_forest"
WORLDS = {"whispering_forest_en": FOREST / "en", "whispering_forest": FOREST / "zh"}


@asynccontextmanager
async def serving(folder, world=None):
    app = build_app(ServiceSettings(store=str(folder / "store"), embedder="none", world=world and str(world)))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
    ):
        yield client


@pytest.mark.parametrize("world_id", WORLDS)
async def test_what_a_get_gives_a_put_takes(tmp_path, world_id):
    async with serving(tmp_path / "first", WORLDS[world_id]) as client:
        await client.post("/sessions", json={"session_id": "s"})
        given = await client.get(f"/worlds/{world_id}")
        assert (await client.put(f"/worlds/{world_id}", json=given.json())).status_code == 200
        await client.put(f"/worlds/{world_id}", json=given.json())
    async with serving(tmp_path / "second") as client:
        put = await client.put(
            f"/worlds/{world_id}", content=given.content, headers={"content-type": "application/json"}
        )
        assert (put.status_code, put.json()["world_id"]) == (200, world_id)
        again = (await client.get(f"/worlds/{world_id}")).json()
        assert again["pack"] == given.json()["pack"] | {"digest": put.json()["digest"]}
        assert (await client.put(f"/worlds/{world_id}", json=again)).json() == put.json()
        await client.post("/sessions", json={"session_id": "s", "world_id": world_id})
        turn = await client.post("/sessions/s/turns", json={"message": "Where is the key?"})
        assert turn.status_code == 200


async def test_every_fault_of_a_pack_is_named_and_nothing_is_stored(tmp_path):
    async with serving(tmp_path, FOREST / "en") as client:
        pack = (await client.get("/worlds/whispering_forest_en")).json()
        pack["pack"] |= {"world_id": "other", "templates": {"chat/guidance.j2": "{% if %}"}}
        pack["pack"]["planner"]["default_template"] = "chatt"
        broken = await client.put("/worlds/other", json=pack)
        assert broken.status_code == 422
        assert broken.json()["error"]["code"] == "world_pack"
        faults = broken.json()["error"]["facts"]["faults"]
        assert any("chat/guidance.j2:1" in each for each in faults)
        assert any("template 'chatt' does not exist" in each for each in faults)
        pack["pack"]["lore"][0]["when"] = [{"path": "nope.x", "op": "==", "value": 1}]
        pack["pack"]["lore"][1]["entities"] = ["nobody"]
        del pack["pack"]["persona"]
        broken = await client.put("/worlds/other", json=pack)
        assert broken.status_code == 422
        faults = broken.json()["error"]["facts"]["faults"]
        assert sorted(each.partition(";")[0] for each in faults) == [
            "pack: lacks the field 'persona'",
            "pack: lore[0].when[0]: refers to 'nope.x', which is not in the state",
            "pack: lore[1].entities[0]: there is no entity 'nobody'",
        ]
        assert broken.json()["error"]["message"] == "\n".join(faults)
        assert (await client.get("/worlds/other")).status_code == 404
        wrong = await client.put("/worlds/whispering_forest_en", json={"pack": {"format": 1, "pack": {}}})
        assert "has the field 'format'" in wrong.json()["error"]["message"]


async def test_lore_of_a_folder_is_not_edited_and_the_refusal_says_where_it_is(tmp_path):
    async with serving(tmp_path, FOREST / "en") as client:
        lore = (await client.get("/worlds/whispering_forest_en/lore")).json()["items"][0]["entry_id"]
        for method, path in (("PATCH", f"lore/{lore}"), ("POST", "lore")):
            refused = await client.request(method, f"/worlds/whispering_forest_en/{path}", json={"text": "New."})
            assert refused.status_code == 422
            said = refused.json()["error"]["message"]
            assert "edit its files there" in said
            assert "jacquard memory import DIR" in said


def test_the_description_has_the_form_of_a_pack():
    described = build_openapi(OPERATIONS, "1")
    world = described["paths"]["/api/v1/worlds/{world_id}"]
    sent = world["put"]["requestBody"]["content"]["application/json"]["schema"]
    given = world["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert sent == given
    assert "lore" in described["components"]["schemas"]["WorldPack"]["properties"]
