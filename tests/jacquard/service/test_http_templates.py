"""Work of a template author over HTTP: read, break, mend, preview at a recorded turn, golden cases, and lore that a text wakes."""

from __future__ import annotations

import json
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from jacquard.config.service import ServiceSettings
from jacquard.service.running.application import build_app

pytestmark = pytest.mark.anyio
FOREST = Path(__file__).parents[3] / "examples" / "whispering_forest" / "en"
ASKED = "Chief, where is the temple key, and what lies in the lead box in your hearth?"
NAME = "chat/guidance.j2"
FILE = "/worlds/forest/templates/chat%2Fguidance.j2"
OWN = '<directive id="guidance">\nSpeak of the bell at every chance.\n</directive>\n'


@asynccontextmanager
async def serving(folder, world=FOREST):
    app = build_app(ServiceSettings(store=str(folder / "store"), embedder="none", world=str(world)))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
    ):
        yield client


async def begin(client):
    """Store the forest under an id of its own, and play a turn in it."""
    pack = json.loads((await client.get("/worlds/whispering_forest_en")).text.replace("whispering_forest_en", "forest"))
    assert (await client.put("/worlds/forest", json=pack)).status_code == 200
    await client.post("/sessions", json={"session_id": "s", "world_id": "forest"})
    await client.post("/sessions/s/turns", json={"message": ASKED, "turn_id": "t1"})
    await client.post("/sessions/s/reply", json={"message": "Behind the clock.", "turn_id": "t1"})


async def test_a_template_is_broken_mended_and_sent(tmp_path):
    async with serving(tmp_path) as client:
        await begin(client)
        before = (await client.get("/worlds/forest/templates")).json()
        assert before["is_editable"]
        assert NAME in before["shipped"]
        broken = {"files": {NAME: "{% if state.hero %}\n{{ stat.hero }}\n"}}
        found = (await client.post("/worlds/forest/templates/lint", json=broken)).json()
        assert found["errors"] > 0
        fault = found["findings"][0]
        assert (fault["file"], fault["severity"]) == (NAME, "error")
        assert fault["line"] >= 1
        assert fault["message"]
        assert fault["advice"]
        refused = await client.put(FILE, json={"text": broken["files"][NAME]})
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "world_pack")
        assert (await client.get("/worlds/forest/templates")).json() == before
        assert (await client.put(FILE, json={"text": OWN})).status_code == 200
        assert (await client.get("/worlds/forest/templates")).json()["files"][NAME] == OWN
        assert (await client.post("/worlds/forest/templates/lint", json={})).json()["errors"] == 0
        turn = await client.post("/sessions/s/turns", json={"message": "And then?"})
        assert "Speak of the bell" in str(turn.json()["messages"])
        await client.put(FILE, json={"text": None})
        assert (await client.get("/worlds/forest/templates")).json() == before


async def test_an_unsaved_template_is_compared_with_what_was_sent(tmp_path):
    async with serving(tmp_path) as client:
        await begin(client)
        same = (await client.post("/sessions/s/turns/t1/preview", json={})).json()
        assert (same["is_same"], same["changes"]) == (True, [])
        told = (await client.post("/sessions/s/turns/t1/preview", json={"files": {NAME: OWN}})).json()
        assert not told["is_same"]
        (change,) = told["changes"]
        assert any(line.startswith("+") and "Speak of the bell" in line for line in change["lines"])
        sent = (await client.get("/sessions/s/turns/t1")).json()
        assert told["before"]["messages"] == sent["messages"]
        assert NAME not in (await client.get("/worlds/forest/templates")).json()["files"]
        for body, said in (
            ({"files": {NAME: "{% if %}"}}, NAME),
            ({"files": {"../x.j2": ""}}, "cannot be a template"),
            ({"layout": "nosuch"}, "nosuch"),
        ):
            refused = await client.post("/sessions/s/turns/t1/preview", json=body)
            assert refused.status_code == 422, refused.text
            assert said in refused.json()["error"]["message"]


async def test_a_world_of_a_folder_is_read_and_linted_but_edited_in_the_folder(tmp_path):
    async with serving(tmp_path) as client:
        given = (await client.get("/worlds/whispering_forest_en/templates")).json()
        assert not given["is_editable"]
        refused = await client.put("/worlds/whispering_forest_en/templates/chat%2Fguidance.j2", json={"text": OWN})
        assert (refused.status_code, "edit its files there" in refused.text) == (422, True)
        found = await client.post("/worlds/whispering_forest_en/templates/lint", json={"files": {NAME: "{{ nope }}"}})
        assert found.json()["errors"] == 1
        assert (await client.get("/worlds/nowhere/templates")).status_code == 404


async def test_golden_cases_are_run_and_accepted(tmp_path):
    world = tmp_path / "world"
    shutil.copytree(FOREST, world)
    tests = world / "templates" / "tests"
    tests.mkdir(parents=True, exist_ok=True)
    (tests / "bell.yaml").write_text("input: Where is the bell?\n", encoding="utf-8")
    async with serving(tmp_path, world) as client:
        await client.post("/sessions", json={"session_id": "s"})
        path = "/worlds/whispering_forest_en/golden"

        async def run(**body):
            answer = await client.post(path, json={"case": "bell", **body})
            assert answer.status_code == 200, answer.text
            return answer.json()[0]["verdict"]

        assert await run() == "new"
        assert not (tests / "bell.txt").exists()
        assert await run(accept=True) == "written"
        assert await run() == "passed"
        (tests / "bell.txt").write_text("Something else.\n", encoding="utf-8")
        assert await run() == "changed"
        unknown = await client.post(path, json={"case": "nosuch"})
        assert (unknown.status_code, "there are: " in unknown.text) == (422, True)


async def test_lore_that_a_text_wakes_is_listed_with_keys_and_conditions(tmp_path):
    async with serving(tmp_path) as client:
        await begin(client)
        pack = (await client.get("/worlds/forest")).json()
        key = {"path": "hero.health", "op": ">", "value": 1_000}
        pack["pack"]["lore"][0] |= {"keys": ["lead box", "anvil"], "when": [key]}
        assert (await client.put("/worlds/forest", json=pack)).status_code == 200
        told = (await client.post("/sessions/s/lore-match", json={"text": ASKED})).json()
        assert told["activation"] == "recall"
        (found,) = [each for each in told["items"] if each["entry_id"] == pack["pack"]["lore"][0]["entry_id"]]
        assert (found["keys"], found["found_keys"]) == (["lead box", "anvil"], ["lead box"])
        (condition,) = found["conditions"]
        assert (condition["holds"], condition["value"]) == (False, 1_000)
        assert condition["present"] is not None
        assert (await client.post("/sessions/s/lore-match", json={"text": " "})).status_code == 422
