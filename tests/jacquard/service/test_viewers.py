"""A token that is bound to a viewer: whatever it asks for, it gets what this viewer may know."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from jacquard.config.service import ServiceSettings
from jacquard.service.access.records import using_records
from jacquard.service.running.application import build_app
from jacquard.service.values import Scope

pytestmark = pytest.mark.anyio
WORLD = Path(__file__).parents[3] / "examples" / "whispering_forest" / "en"
ASKED = "Chief, where is the temple key, and what lies in the lead box in your hearth?"
SECRET = "It lies in a lead box"
TURNS = "/sessions/s/turns"


@asynccontextmanager
async def play(tmp_path):
    """A client, and the headers of the host, of the chief and of a stranger to whom no secret is open."""
    store, headers = str(tmp_path / "store"), {}
    async with using_records(store) as records:
        for name, viewer in (("host", None), ("chief", "chief"), ("stranger", "stranger")):
            token, _ = await records.tokens.create("north", Scope.PLAY, viewer=viewer)
            headers[name] = {"Authorization": f"Bearer {token}"}
    app = build_app(ServiceSettings(store=store, world=str(WORLD), embedder="none", tenants=True))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
    ):
        await client.post("/sessions", json={"session_id": "s"}, headers=headers["host"])
        yield client, headers


async def ask(client, headers, path, body):
    answer = await client.post(path, json=body, headers=headers)
    return answer.status_code, answer.text


async def test_a_viewer_in_the_settings_of_a_call_is_not_that_of_the_token(tmp_path):
    async with play(tmp_path) as (client, headers):
        sent = {"message": ASKED, "config": {"viewer": "chief"}, "turn_id": "mine"}
        status, stranger = await ask(client, headers["stranger"], TURNS, sent)
        assert status == 200
        status, chief = await ask(client, headers["chief"], TURNS, {**sent, "turn_id": "his", "config": None})
        assert status == 200
        assert SECRET in chief
        assert SECRET not in stranger


async def test_a_viewer_gets_no_turn_of_another_by_its_id(tmp_path):
    async with play(tmp_path) as (client, headers):
        stranger = headers["stranger"]
        for name in ("chief", "host"):
            sent = {"message": ASKED, "turn_id": f"of-{name}"}
            assert (await ask(client, headers[name], TURNS, sent))[0] == 200
            reply = {"message": "The reply is Rosebud.", "turn_id": f"of-{name}"}
            for path in ("reply", "reply/finalize", "reply/abort"):
                sent_here = {**reply} if path == "reply" else {"turn_id": f"of-{name}"}
                assert (await ask(client, stranger, f"/sessions/s/{path}", sent_here))[0] == 404
            chunk = {"chunk": "x", "chunk_index": 0, "turn_id": f"of-{name}"}
            assert (await ask(client, stranger, "/sessions/s/reply/chunks", chunk))[0] == 404
            assert (await ask(client, stranger, "/sessions/s/reply", {"message": "Without an id."}))[0] == 404
            assert (await ask(client, headers[name], "/sessions/s/reply", reply))[0] == 200
            for path, body in (
                ("turns", sent),
                ("swipe", {"turn_id": f"of-{name}"}),
                ("swipe", {}),
                ("retry", {}),
                ("reply", reply),
            ):
                status, text = await ask(client, stranger, f"/sessions/s/{path}", body)
                assert status == 404, (name, path)
                assert "Rosebud" not in text
                assert SECRET not in text
        heads = (await client.get("/sessions/s/branches", headers=stranger)).json()
        assert len(heads) == 1


async def test_a_viewer_plays_its_own_turns(tmp_path):
    async with play(tmp_path) as (client, headers):
        own = headers["chief"]
        for number in range(2):
            sent = {"message": f"{ASKED} {number}", "turn_id": f"t{number}"}
            first, again = [await ask(client, own, TURNS, sent) for _ in range(2)]
            assert first == again
            reply = {"message": "I will not say.", "turn_id": f"t{number}"}
            assert (await ask(client, own, "/sessions/s/reply", reply))[0] == 200
            assert (await ask(client, own, "/sessions/s/reply", reply))[0] == 200
        assert (await ask(client, own, "/sessions/s/swipe", {"turn_id": "t1"}))[0] == 200
        assert (await ask(client, own, "/sessions/s/retry", {}))[0] == 200


@pytest.mark.parametrize("path", ["turns", "swipe", "retry"])
async def test_no_setting_of_a_call_shows_what_another_viewer_may_know(tmp_path, path):
    arm = {"e": {"a": {"share": 1, "config": {"viewer": "chief"}}}}
    async with play(tmp_path) as (client, headers):
        stranger = headers["stranger"]
        assert (await ask(client, stranger, TURNS, {"message": ASKED, "turn_id": "t1"}))[0] == 200
        assert (await ask(client, stranger, "/sessions/s/reply", {"message": "Hm.", "turn_id": "t1"}))[0] == 200
        sent = {"message": ASKED, "turn_id": "t2"} if path == "turns" else {}
        status, text = await ask(client, stranger, f"/sessions/s/{path}", {**sent, "config": {"experiments": arm}})
        assert (status, SECRET in text) == (422, False)
        status, text = await ask(client, stranger, f"/sessions/s/{path}", {**sent, "config": {"viewer": "chief"}})
        assert (status, SECRET in text) == (200, False)


async def test_a_viewer_with_a_turn_that_waits_swipes_no_turn_of_another(tmp_path):
    async with play(tmp_path) as (client, headers):
        chief, stranger = headers["chief"], headers["stranger"]
        assert (await ask(client, chief, TURNS, {"message": "My word is Rosebud.", "turn_id": "his"}))[0] == 200
        assert (await ask(client, chief, "/sessions/s/reply", {"message": "So be it.", "turn_id": "his"}))[0] == 200
        assert (await ask(client, stranger, TURNS, {"message": "And mine?", "turn_id": "mine"}))[0] == 200
        assert (await ask(client, stranger, "/sessions/s/swipe", {}))[0] == 404
        assert len((await client.get("/sessions/s/branches", headers=stranger)).json()) == 1


async def test_a_viewer_does_not_prepare_the_waiting_turn_of_another_again(tmp_path):
    async with play(tmp_path) as (client, headers):
        assert (await ask(client, headers["chief"], TURNS, {"message": ASKED, "turn_id": "his"}))[0] == 200
        assert (await ask(client, headers["stranger"], TURNS, {"message": "Mine.", "turn_id": "his"}))[0] == 404
        reply = {"message": "I will not say.", "turn_id": "his"}
        assert (await ask(client, headers["chief"], "/sessions/s/reply", reply))[0] == 200


@pytest.mark.parametrize("named", [{"name": "ida"}, {"author": {"kind": "user", "id": "ida"}}], ids=["name", "author"])
async def test_a_viewer_reads_no_facts_about_a_user_by_speaking_as_that_one(tmp_path, named):
    message = {"role": "user", "content": "What is my ship called?", **named}
    async with play(tmp_path) as (client, headers):
        facts = {"facts": [{"text": "My ship is called Petunia."}]}
        assert (await ask(client, headers["host"], "/users/ida/facts", facts))[0] == 200
        status, text = await ask(client, headers["host"], TURNS, {"message": message, "turn_id": "host"})
        assert (status, "Petunia" in text) == (200, True)
        status, text = await ask(client, headers["stranger"], TURNS, {"message": message, "turn_id": "mine"})
        assert (status, "speaks as 'stranger'" in text, "Petunia" in text) == (422, True, False)
        own = {
            **message,
            **({"name": "stranger"} if "name" in named else {"author": {"kind": "user", "id": "stranger"}}),
        }
        assert (await ask(client, headers["stranger"], TURNS, {"message": own, "turn_id": "mine"}))[0] == 200


async def play_turn(client, headers, name, turn_id):
    assert (await ask(client, headers[name], TURNS, {"message": f"I am {name}.", "turn_id": turn_id}))[0] == 200
    reply = {"message": "I hear you.", "turn_id": turn_id}
    assert (await ask(client, headers[name], "/sessions/s/reply", reply))[0] == 200


async def test_a_viewer_leaves_no_turn_of_another_behind(tmp_path):
    async with play(tmp_path) as (client, headers):
        stranger = headers["stranger"]
        await play_turn(client, headers, "stranger", "t1")
        await play_turn(client, headers, "chief", "t2")
        await play_turn(client, headers, "stranger", "t3")
        for path, body in (
            ("rollback", {"turn_id": "t1"}),
            ("rollback", {"turn_id": None}),
            ("fork", {"turn_id": "t1"}),
            ("fork", {}),
            ("swipe", {"turn_id": "t1"}),
        ):
            status, text = await ask(client, stranger, f"/sessions/s/{path}", body)
            assert (status, "viewer_bound" in text) == (403, True), (path, body)
        head = (await client.get("/sessions/s", headers=stranger)).json()
        assert (head["branch_id"], head["turn_id"]) == ("main", "t3")


async def test_a_viewer_goes_back_over_its_own_turns_and_forth_again(tmp_path):
    async with play(tmp_path) as (client, headers):
        stranger = headers["stranger"]
        await play_turn(client, headers, "chief", "t1")
        for turn_id in ("t2", "t3"):
            await play_turn(client, headers, "stranger", turn_id)
        assert (await ask(client, stranger, "/sessions/s/rollback", {"turn_id": "t2"}))[0] == 200
        await play_turn(client, headers, "stranger", "t4")
        assert (await ask(client, stranger, "/sessions/s/switch", {"branch_id": "main"}))[0] == 200
        assert (await ask(client, stranger, "/sessions/s/swipe", {"turn_id": "t2"}))[0] == 200
        for branch_id in ("main", "no"):
            status = {"main": 200, "no": 404}[branch_id]
            assert (await ask(client, stranger, "/sessions/s/switch", {"branch_id": branch_id}))[0] == status
        await play_turn(client, headers, "chief", "t5")
        assert (await ask(client, stranger, "/sessions/s/switch", {"branch_id": "back-1"}))[0] == 403
        assert (await ask(client, headers["host"], "/sessions/s/switch", {"branch_id": "back-1"}))[0] == 200
