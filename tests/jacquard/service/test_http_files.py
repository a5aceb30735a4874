"""Files of other programs over HTTP: what would become of them, then in, then out again."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from jacquard.config.service import ServiceSettings
from jacquard.service.running.application import build_app
from mnemosyne.schema.memory import profile_session_id

pytestmark = pytest.mark.anyio
EXAMPLE = Path(__file__).parents[3] / "examples" / "whispering_forest" / "en"
ENTRY = {"keys": ["lighthouse"], "content": "The lighthouse keeper is called Oda.", "enabled": True, "extensions": {}}
CARD = {
    "spec": "chara_card_v2",
    "spec_version": "2.0",
    "data": {
        "name": "Mira",
        "description": "{{char}} mends boats.",
        "first_mes": "Hello, {{user}}.",
        "character_book": {"entries": [{**ENTRY, "insertion_order": 1}], "extensions": {}},
        "extensions": {"strange": 1},
    },
}
CHAT = "\n".join(
    json.dumps(each, ensure_ascii=False)
    for each in (
        {"user_name": "Ana", "character_name": "Mira", "create_date": "2026-01-01@10h00m00s"},
        {"name": "Mira", "is_user": False, "mes": "Hello, Ana."},
        {"name": "Ana", "is_user": True, "mes": "我的船叫什么？"},
        {"name": "Mira", "is_user": False, "mes": "It is called Petunia."},
    )
)


def pack(name, text):
    data = text if isinstance(text, bytes) else text.encode()
    return {"name": name, "content": base64.b64encode(data).decode()}


FILES = [pack("Mira.json", json.dumps(CARD)), pack("first evening.jsonl", CHAT)]


@asynccontextmanager
async def serving(folder):
    app = build_app(ServiceSettings(store=str(folder / "store"), embedder="none"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
    ):
        yield client


async def test_a_dry_run_tells_the_fate_of_each_field_and_the_import_follows_it(tmp_path):
    async with serving(tmp_path) as client:
        body = {"files": FILES, "session_id": "evening", "dry_run": True}
        told = (await client.post("/imports", json=body)).json()
        assert (told["written"], list(told["sessions"])) == (False, ["evening"])
        card, chat = told["files"]
        assert (card["name"], card["format"], card["cards"]) == ("Mira.json", "card", ["Mira"])
        assert (chat["format"], chat["chats"]) == ("chat", {"first evening": 2})
        assert {each["fate"] for each in card["fields"]} >= {"kept"}
        assert (await client.get("/sessions")).json()["items"] == []
        assert (await client.get("/worlds")).json() == []
        done = (await client.post("/imports", json={**body, "dry_run": False})).json()
        assert (done["written"], done["sessions"]["evening"]["turns"]) == (True, done["sessions"]["evening"]["new"])
        assert done["lore_changed"] > 0
        assert done["files"] == told["files"]
        again = (await client.post("/imports", json={**body, "dry_run": False})).json()
        assert (again["sessions"]["evening"]["new"], again["lore_changed"]) == (0, 0)
        turn = await client.post("/sessions/evening/turns", json={"message": "Who keeps the lighthouse?"})
        assert "Oda" in str(turn.json()["messages"])
        assert "Petunia" in str(turn.json()["messages"])


async def test_what_came_in_goes_out_again(tmp_path):
    async with serving(tmp_path) as client:
        await client.post("/imports", json={"files": FILES, "session_id": "evening"})
        for wanted, text in (("chat", "Petunia"), ("card", "mends boats"), ("world-info", "Oda")):
            given = await client.get("/sessions/evening/export", params={"format": wanted})
            assert given.status_code == 200, given.text
            assert text in given.text
            assert given.headers["content-disposition"].startswith("attachment; filename*=UTF-8''evening.")
        picture = await client.get("/sessions/evening/export", params={"format": "card-png"})
        assert picture.content.startswith(b"\x89PNG")
        back = await client.post("/imports", json={"files": [pack("Mira.png", picture.content)], "dry_run": True})
        assert back.json()["files"][0]["cards"] == ["Mira"]
        unknown = await client.get("/sessions/evening/export", params={"format": "card", "name": "Mirra"})
        assert (unknown.status_code, "did you mean 'Mira'" in unknown.text) == (422, True)
        assert (await client.get("/sessions/evening/export", params={"format": "pdf"})).status_code == 422
        assert (await client.get("/sessions/none/export")).status_code == 404


async def test_a_folder_of_notes_comes_in_as_one(tmp_path):
    async with serving(tmp_path) as client:
        notes = [
            pack("vault/.obsidian/app.json", "{}"),
            pack("vault/boat.md", "# Boat\n\nThe boat is red. See [[ferry]]."),
            pack("vault/ferry.md", "# Ferry\n\nThe ferry leaves at noon."),
        ]
        told = (await client.post("/imports", json={"files": notes, "session_id": "s"})).json()
        assert [(each["name"], each["format"]) for each in told["files"]] == [("vault", "obsidian")]
        assert told["written"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("../../evil.json", "e30=", "cannot be the name of a file"),
        ("/etc/passwd", "e30=", "cannot be the name of a file"),
        ("a/../../b", "e30=", "cannot be the name of a file"),
        ("a\\b", "e30=", "cannot be the name of a file"),
        ("", "e30=", "cannot be the name of a file"),
        ("card.json", "not base64", "is not base64"),
        ("empty.json", "", "empty.json: is empty"),
        ("what.bin", "AAAA", "what.bin"),
        ("card.json", base64.b64encode(b'{"spec": "chara_card_v2", "data": 7}').decode(), "card.json"),
    ],
)
async def test_a_file_that_cannot_be_read_is_refused_with_its_name_and_nothing_is_written(
    tmp_path, name, content, said
):
    async with serving(tmp_path) as client:
        refused = await client.post("/imports", json={"files": [*FILES, {"name": name, "content": content}]})
        assert refused.status_code == 422, refused.text
        assert said in refused.json()["error"]["message"]
        assert "jacquard-import-" not in refused.text
        assert (await client.get("/sessions")).json()["items"] == []


async def test_a_session_that_is_reserved_is_not_imported_into(tmp_path):
    name = profile_session_id("ida")
    async with serving(tmp_path) as client:
        for body in ({"files": FILES, "session_id": name}, {"files": [pack(f"{name}.jsonl", CHAT)]}):
            refused = await client.post("/imports", json=body)
            assert refused.status_code == 422
            assert "reserved" in refused.text
        no_files = await client.post("/imports", json={"files": []})
        assert "send at least one file" in no_files.json()["error"]["message"]


def zipped(name, **members):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, text in members.items():
            archive.writestr(member, text)
    return pack(name, data.getvalue())


async def test_a_zipped_vault_and_a_zipped_world_pack_come_in(tmp_path):
    vault = {"vault/.obsidian/app.json": "{}", "vault/boat.md": "# Boat\n\nThe boat is red.", "__MACOSX/vault/x": "y"}
    world = {
        str(path.relative_to(EXAMPLE)): path.read_bytes()
        for path in sorted(EXAMPLE.rglob("*"))
        if path.is_file() and "golden" not in path.parts
    }
    sent = {"files": [zipped("notes.zip", **vault), zipped("forest.zip", **world)], "session_id": "s"}
    async with serving(tmp_path) as client:
        told = (await client.post("/imports", json={**sent, "dry_run": True})).json()
        assert [each["format"] for each in told["files"]] == ["obsidian", "world"]
        assert (await client.get("/worlds")).json() == []
        done = (await client.post("/imports", json=sent)).json()
        assert done["files"] == told["files"]
        assert {"whispering_forest_en"} <= {each["world_id"] for each in (await client.get("/worlds")).json()}
        await client.post("/sessions", json={"session_id": "walk", "world_id": "whispering_forest_en"})
        turn = await client.post("/sessions/walk/turns", json={"message": "Hello."})
        assert turn.status_code == 200, turn.text


@pytest.mark.parametrize(
    "member", ["../evil.md", "/etc/evil.md", "a/../../evil.md", "a\\evil.md", "c:evil.md", "a//b.md"]
)
async def test_an_archive_that_leads_out_of_its_folder_is_refused(tmp_path, member):
    async with serving(tmp_path) as client:
        sent = {"files": [zipped("notes.zip", **{".obsidian/app.json": "{}", member: "x"})], "session_id": "s"}
        refused = await client.post("/imports", json=sent)
        assert (refused.status_code, "is not unpacked" in refused.text) == (422, True)
        assert not list(tmp_path.rglob("evil.md"))
        assert (await client.get("/sessions")).json()["items"] == []
