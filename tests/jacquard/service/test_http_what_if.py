"""Other settings for a turn over HTTP: a new input that is not written, and a recorded turn next to what it would have been."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from jacquard.config.service import ServiceSettings
from jacquard.service.running.application import build_app

pytestmark = pytest.mark.anyio
WORLD = Path(__file__).parents[3] / "examples" / "whispering_forest" / "en"
ASKED = "Chief, where is the temple key, and what lies in the lead box in your hearth?"


@asynccontextmanager
async def serving(folder):
    app = build_app(ServiceSettings(store=str(folder / "store"), embedder="none", world=str(WORLD)))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
    ):
        await client.post("/sessions", json={"session_id": "s"})
        await client.post("/sessions/s/turns", json={"message": ASKED, "turn_id": "t1"})
        await client.post("/sessions/s/reply", json={"message": "Behind the clock.", "turn_id": "t1"})
        yield client


async def try_turn(client, config):
    body = {"message": ASKED, "dry_run": True, "config": config}
    answer = await client.post("/sessions/s/turns", json=body, params={"include": "report"})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_dry_turn_obeys_the_settings_of_the_call_and_brings_its_receipt(tmp_path):
    async with serving(tmp_path) as client:
        as_it_is = (await try_turn(client, {}))["report"]
        assert (await try_turn(client, {"layout": "cache_append"}))["report"]["layout"] == "cache_append"
        assert (await try_turn(client, {"template_id": "combat"}))["report"]["template_id"] == "combat"
        small = (await try_turn(client, {"budget": {"max_input_tokens": 4_000}}))["report"]
        assert small["budget"]["limit_tokens"] < as_it_is["budget"]["limit_tokens"]
        assert as_it_is["stream_b"]["selected"]
        none = (await try_turn(client, {"curation": {"enabled": False}}))["report"]
        assert none["stream_b"]["selected"] == []
        strict = (await try_turn(client, {"curation": {"select_limit": 1, "fallback_limit": 1}}))["report"]
        assert len(strict["stream_b"]["selected"]) == 1
        assert (await try_turn(client, {"curation": {"relevance_floor": 1.0}}))["report"]["stream_b"]["selected"] == []
        lead = "It lies in a lead box"
        assert lead not in str((await try_turn(client, {"viewer": "stranger"}))["messages"])
        assert lead in str((await try_turn(client, {"viewer": "chief"}))["messages"])
        assert (await client.get("/sessions/s/turns")).json()["items"][-1]["turn_id"] == "t1"


async def test_a_recorded_turn_is_shown_next_to_what_it_would_have_been(tmp_path):
    async with serving(tmp_path) as client:
        before = (await client.get("/sessions/s/turns/t1", params={"include": "report"})).json()
        told = await client.post("/sessions/s/turns/t1/what-if", json={"config": {"curation": {"enabled": False}}})
        assert told.status_code == 200, told.text
        told = told.json()
        assert told["before"]["messages"] == before["messages"]
        assert told["before"]["tokens"] == before["report"]["budget"]["used_tokens"]
        for each in (told["before"], told["after"]):
            kept = sum(block["tokens"] for block in each["blocks"] if block["kept"])
            assert kept + each["frame_tokens"] == each["tokens"]
        assert told["after"]["tokens"] < told["before"]["tokens"]
        gone = [each["block_id"] for each in told["changes"] if each["new_tokens"] is None]
        assert gone
        assert set(gone) <= {each["block_id"] for each in told["decisions"]}
        assert (told["applied"], told["ignored"]) == (["curation.enabled"], [])
        assert (await client.get("/sessions/s/turns/t1", params={"include": "report"})).json() == before


async def test_another_layout_template_and_budget_are_applied_and_the_rest_is_named(tmp_path):
    async with serving(tmp_path) as client:

        async def ask(config):
            return await client.post("/sessions/s/turns/t1/what-if", json={"config": config})

        other = (await ask({"layout": "cache_append", "template_id": "combat"})).json()
        assert (other["after"]["layout"], other["after"]["template_id"]) == ("cache_append", "combat")
        assert other["moved"]
        same = (await ask({})).json()
        assert (same["changes"], same["decisions"], same["moved"]) == ([], [], False)
        ignored = (await ask({"curation": {"relevance_floor": 1.0}})).json()
        assert ignored["ignored"] == ["curation.relevance_floor"]
        for config, status, said in (
            ({"budget": {"max_input_tokens": 300}}, 422, ""),
            ({"viewer": "elara"}, 422, "It was prepared for nobody in particular"),
            ({"layuot": "x"}, 422, "did you mean 'layout'"),
        ):
            refused = await ask(config)
            assert refused.status_code == status, refused.text
            assert said in refused.json()["error"]["message"]


async def test_a_dry_turn_has_unsaved_texts_of_the_files_of_its_world(tmp_path):
    async with serving(tmp_path) as client:
        names = (await client.get("/worlds/whispering_forest_en/files")).json()
        files = {"templates/chat/guidance.j2": "Speak like a <pirate>."}
        body = {"message": ASKED, "dry_run": True, "config": {"template_id": "chat"}, "files": files}
        told = await client.post("/sessions/s/turns", json=body)
        assert told.status_code == 200, told.text
        assert "Speak like a" in str(told.json()["messages"])
        assert "Speak like a" not in str((await try_turn(client, {"template_id": "chat"}))["messages"])
        assert (await client.get("/worlds/whispering_forest_en/files")).json() == names
        refused = await client.post("/sessions/s/turns", json={**body, "dry_run": False})
        assert refused.status_code == 422
        assert "dry_run" in refused.json()["error"]["message"]
