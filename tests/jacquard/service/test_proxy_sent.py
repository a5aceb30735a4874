"""What a proxied call really sent is shown afterwards: in the receipt, on the page and by `explain`."""

from __future__ import annotations

import pytest
from test_proxy_turns import Chat, open_http

from jacquard.testing.server import ScriptedServer
from mnemosyne import BookEntry, CharacterCard, WorldBook
from mnemosyne.world.imported.pack import ImportedWorld, pack_files

pytestmark = pytest.mark.anyio


@pytest.fixture
def server():
    with ScriptedServer("text:Noted.") as server:
        yield server


def write_world(folder, *, persona="", entries=(), note=None):
    """Write the pack of an imported card, a book of lore and an author's note; return its folder."""
    cards = (CharacterCard(spec="chara_card_v2", name="Mia", document={}, description=persona),) if persona else ()
    book = WorldBook(
        name="book",
        dialect="sillytavern",
        entries=tuple(BookEntry(uid=str(uid), fields=fields) for uid, fields in enumerate(entries)),
    )
    world = ImportedWorld(
        world_id="tea",
        title="Tea",
        locale="en",
        activation="sillytavern",
        cards=cards,
        books=(book,),
        authors_note=note,
    )
    for name, data in pack_files(world).items():
        file = folder / "world" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return folder / "world"


async def usages(http):
    document = (await http.get("/api/v1/sessions/tea/document")).json()
    return document["session"]["model_usage"]


async def test_an_answer_leads_to_the_page_of_its_turn(tmp_path, server):
    async with open_http(tmp_path, server) as http:
        chat = Chat(http)
        await chat.say("Good morning.")
        page = await http.get(chat.answer.headers["x-jacquard-page"])
    assert page.status_code == 200
    assert "Good morning." in page.text
    assert "x-jacquard-degraded" not in chat.answer.headers


async def test_what_a_turn_was_done_without_is_a_header(tmp_path, server):
    async with open_http(tmp_path, server, world=str(write_world(tmp_path, persona="long " * 9_000))) as http:
        chat = Chat(http)
        await chat.say("Good morning.")
        receipt = (await http.get(chat.answer.headers["x-jacquard-receipt"])).json()
    codes = [each["code"] for each in receipt["report"]["degradations"]]
    assert codes
    assert chat.answer.headers["x-jacquard-degraded"].split(", ") == list(dict.fromkeys(codes))


@pytest.mark.parametrize("streams", [False, True])
async def test_a_call_is_recorded_with_its_times_and_why_the_model_stopped(tmp_path, server, streams):
    server.set_script("unmetered:Noted.")
    async with open_http(tmp_path, server) as http:
        body = {"model": "m", "stream": streams, "messages": [{"role": "user", "content": "Good morning."}]}
        await http.post("/v1/chat/completions", json=body, headers={"X-Jacquard-Session": "tea"})
        body = {"model": "m", "max_tokens": 9, "stream": streams, "messages": [{"role": "user", "content": "Tea?"}]}
        await http.post("/v1/messages", json=body, headers={"X-Jacquard-Session": "tea"})
        first, second = await usages(http)
    assert (first["stop_reason"], second["stop_reason"]) == ("stop", "end_turn")
    for usage in (first, second):
        assert (usage.get("first_token_latency_ms") is not None) is streams
        assert usage["latency_ms"] >= 0
        assert usage["prompt_tokens"] > 0
    assert first["counted"] == "estimated"
