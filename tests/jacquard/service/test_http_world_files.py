"""Work of a template author over HTTP: read, break, mend, preview at a recorded turn, golden cases, and lore that a text wakes."""

from __future__ import annotations

import json
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from jacquard.config.service import ServiceSettings
from jacquard.service.access.records import using_records
from jacquard.service.running.application import build_app
from jacquard.service.values import Scope

pytestmark = pytest.mark.anyio
FOREST = Path(__file__).parents[3] / "examples" / "whispering_forest" / "en"
ASKED = "Chief, where is the temple key, and what lies in the lead box in your hearth?"
NAME = "templates/chat/guidance.j2"
FILE = "templates%2Fchat%2Fguidance.j2"
GIVEN = "/worlds/whispering_forest_en"
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


async def put(client, files, path="/worlds/forest", read=None, **more):
    return await client.put(f"{path}/files", json={"files": files, "read": read or {}}, **more)


async def test_a_template_is_broken_mended_and_sent(tmp_path):
    async with serving(tmp_path) as client:
        await begin(client)
        before = (await client.get("/worlds/forest/files")).json()
        assert (before["is_folder"], before["is_editable"]) == (False, True)
        assert NAME in before["shipped"]
        shipped = (await client.get(f"/worlds/forest/files/{FILE}")).json()
        assert shipped["is_shipped"]
        broken = {"files": {NAME: "{% if state.hero %}\n{{ stat.hero }}\n"}}
        found = (await client.post("/worlds/forest/lint", json=broken)).json()
        assert found["errors"] > 0
        fault = found["findings"][0]
        assert (fault["file"], fault["severity"]) == (NAME, "error")
        assert fault["line"] >= 1
        assert fault["message"]
        assert fault["advice"]
        refused = await put(client, {NAME: broken["files"][NAME]})
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "world_pack")
        assert (await client.get("/worlds/forest/files")).json() == before
        assert (await put(client, {NAME: OWN})).status_code == 200
        own = (await client.get(f"/worlds/forest/files/{FILE}")).json()
        assert (own["text"], own["is_shipped"]) == (OWN, False)
        assert (await client.post("/worlds/forest/lint", json={})).json()["errors"] == 0
        turn = await client.post("/sessions/s/turns", json={"message": "And then?"})
        assert "Speak of the bell" in str(turn.json()["messages"])
        changed = await put(client, {NAME: "x"}, read={NAME: shipped["digest"]})
        assert (changed.status_code, changed.json()["error"]["code"]) == (409, "file_changed")
        await put(client, {NAME: None}, read={NAME: own["digest"]})
        assert (await client.get("/worlds/forest/files")).json() == before
        refused = await put(client, {"world.yaml": "id: forest"})
        assert (refused.status_code, "only in the store" in refused.text) == (422, True)


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
        assert NAME not in (await client.get("/worlds/forest/files")).json()["files"]
        for body, said in (
            ({"files": {NAME: "{% if %}"}}, "chat/guidance.j2"),
            ({"files": {"templates/../x.j2": ""}}, "cannot be a file of a world"),
            ({"layout": "nosuch"}, "nosuch"),
        ):
            refused = await client.post("/sessions/s/turns/t1/preview", json=body)
            assert refused.status_code == 422, refused.text
            assert said in refused.json()["error"]["message"]


@pytest.fixture
def world(tmp_path):
    """A folder of a world that a service may change."""
    folder = tmp_path / "world"
    shutil.copytree(FOREST, folder)
    return folder


def read_folder(folder):
    return {each.relative_to(folder).as_posix(): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


async def test_files_of_a_folder_are_linted_and_changed_and_the_next_turn_has_them(tmp_path, world):
    async with serving(tmp_path, world) as client:
        await client.post("/sessions", json={"session_id": "s"})
        listed = (await client.get(f"{GIVEN}/files")).json()
        assert (listed["is_folder"], listed["is_editable"]) == (True, True)
        assert {"world.yaml", "quests.yaml", "lore/people.yaml"} <= set(listed["files"])
        text = (await client.get(f"{GIVEN}/files/world.yaml")).json()["text"]
        before = read_folder(world)
        wrong = {"quests.yaml": "- id: q_1\n  titel: Go\n", "lore/new.md": "no front matter", NAME: "{% if %}"}
        found = (await client.post(f"{GIVEN}/lint", json={"files": wrong})).json()["findings"]
        places = {(each["file"], each["line"]) for each in found if each["severity"] == "error"}
        assert {("quests.yaml", 2), (NAME, 1)} <= places
        assert any(each["file"] == "lore/new.md" for each in found)
        assert any("did you mean" in each["advice"] or "did you mean" in each["message"] for each in found)
        for files in (
            wrong,
            {"world.yaml": text.replace("Calm, concrete", "Loud"), "quests.yaml": wrong["quests.yaml"]},
            {"world.yaml": text.replace("id: whispering_forest_en", "id: another")},
            {"world.yaml": None},
        ):
            assert (await put(client, files, path=GIVEN)).status_code == 422
            assert read_folder(world) == before
        loud = text.replace("Calm, concrete", "Loud, concrete").replace("\n", "\r\n")
        stored = await put(client, {"world.yaml": loud, NAME: OWN}, path=GIVEN)
        assert stored.status_code == 200, stored.text
        assert b"\r" not in (world / "world.yaml").read_bytes()
        assert set(read_folder(world)) == {*before, NAME}
        turn = str((await client.post("/sessions/s/turns", json={"message": ASKED})).json()["messages"])
        assert "Loud, concrete" in turn
        assert "Speak of the bell" in turn
        # A new session begins in the changed world too.
        await client.post("/sessions", json={"session_id": "s2"})
        assert "Loud" in str((await client.post("/sessions/s2/turns", json={"message": "Hi."})).json()["messages"])
        assert (await put(client, {NAME: None}, path=GIVEN)).status_code == 200
        assert set(read_folder(world)) == set(before)


@pytest.mark.parametrize(
    "name",
    [
        "../out.yaml", "/etc/x.yaml", "lore/../../out.yaml", "templates/chat/.hidden.j2", "lore\\x.yaml", "readme.md", "lore/x.py",
        "imported.json", "linked/x.yaml", "lore/linked/x.yaml", "lore/link.yaml", "templates/x.j2", "lore/a\u202eb.yaml",
    ],
)  # fmt: skip
async def test_no_file_outside_of_a_pack_is_written(tmp_path, world, name):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.yaml").write_text("[]", encoding="utf-8")
    async with serving(tmp_path, world) as client:
        await client.get("/worlds")
        (world / "lore" / "linked").symlink_to(outside)
        (world / "lore" / "link.yaml").symlink_to(outside / "kept.yaml")
        answer = await put(client, {name: "- {id: a, name: b, category: axiom, content: c}\n"}, path=GIVEN)
        assert answer.status_code == 422, answer.text
        assert [each.name for each in outside.iterdir()] == ["kept.yaml"]
        assert (outside / "kept.yaml").read_text(encoding="utf-8") == "[]"


async def test_a_folder_that_tenants_share_is_read_but_not_changed(tmp_path, world):
    settings = ServiceSettings(store=str(tmp_path / "store"), embedder="none", world=str(world), tenants=True)
    async with using_records(settings.store) as records:
        tokens = {
            scope: (await records.tokens.create("acme", Scope(scope), viewer=viewer))[0]
            for scope, viewer in (("author", None), ("play", "chief"))
        }
    app = build_app(settings)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
    ):
        author = {"authorization": f"Bearer {tokens['author']}"}
        assert (await client.post("/sessions", json={"session_id": "s"}, headers=author)).status_code == 201
        listed = (await client.get(f"{GIVEN}/files", headers=author)).json()
        assert (listed["is_folder"], listed["is_editable"]) == (True, False)
        before = read_folder(world)
        refused = await put(client, {NAME: OWN}, path=GIVEN, headers=author)
        assert (refused.status_code, "edit its files there" in refused.text) == (422, True)
        assert str(tmp_path) not in refused.text
        found = await client.post(f"{GIVEN}/lint", json={"files": {NAME: "{{ nope }}"}}, headers=author)
        assert (found.json()["errors"], str(tmp_path) in found.text) == (1, False)
        assert read_folder(world) == before
        player = {"authorization": f"Bearer {tokens['play']}"}
        for method, path in (("GET", "files"), ("GET", "files/world.yaml"), ("PUT", "files"), ("POST", "lint")):
            denied = await client.request(method, f"{GIVEN}/{path}", json={"files": {}}, headers=player)
            assert denied.status_code == 403
        assert (await client.get("/worlds/nowhere/files", headers=author)).status_code == 404


async def test_golden_cases_are_run_and_accepted(tmp_path, world):
    tests = world / "templates" / "tests"
    tests.mkdir(parents=True, exist_ok=True)
    (tests / "bell.yaml").write_text("input: Where is the bell?\n", encoding="utf-8")
    async with serving(tmp_path, world) as client:
        await client.post("/sessions", json={"session_id": "s"})

        async def run(**body):
            answer = await client.post(f"{GIVEN}/golden", json={"case": "bell", **body})
            assert answer.status_code == 200, answer.text
            return answer.json()[0]["verdict"]

        assert await run() == "new"
        assert not (tests / "bell.txt").exists()
        assert await run(accept=True) == "written"
        assert await run() == "passed"
        (tests / "bell.txt").write_text("Something else.\n", encoding="utf-8")
        assert await run() == "changed"
        unknown = await client.post(f"{GIVEN}/golden", json={"case": "nosuch"})
        assert (unknown.status_code, "there are: " in unknown.text) == (422, True)


async def test_a_recorded_turn_becomes_a_golden_case(tmp_path, world):
    async with serving(tmp_path, world) as client:
        await client.post("/sessions", json={"session_id": "s"})
        await client.post("/sessions/s/turns", json={"message": ASKED, "turn_id": "t1"})
        await client.post("/sessions/s/reply", json={"message": "Behind the clock.", "turn_id": "t1"})
        made = await client.post("/sessions/s/turns/t1/golden", json={"case": "temple key"})
        assert made.status_code == 201, made.text
        assert made.json()["file"] == "templates/tests/temple key.yaml"
        golden = (world / "templates" / "tests" / "temple key.txt").read_text(encoding="utf-8")
        assert ASKED in golden
        (result,) = (await client.post(f"{GIVEN}/golden", json={})).json()
        assert (result["name"], result["verdict"]) == ("temple key", "passed")
        await put(client, {NAME: OWN}, path=GIVEN)
        (result,) = (await client.post(f"{GIVEN}/golden", json={})).json()
        assert result["verdict"] == "changed"
        assert any(line.startswith("+") and "Speak of the bell" in line for line in result["lines"])
        for name in ("temple key", "../x", "a/b", ".x"):
            refused = await client.post("/sessions/s/turns/t1/golden", json={"case": name})
            assert refused.status_code == 422, refused.text


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
