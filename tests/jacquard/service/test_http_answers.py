"""Replies from the service's own model server: streamed, stopped, refused, and to a prompt that was edited by hand."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from served import serve_app

from jacquard.config.service import ProxySettings, ServiceSettings
from jacquard.service.running.application import build_app
from jacquard.testing.server import ScriptedServer

pytestmark = pytest.mark.anyio
WORLD = Path(__file__).parents[3] / "examples" / "whispering_forest" / "en"
REPLY = "<thought>Hm.</thought><content>Behind the clock.</content>"


@pytest.fixture
def server():
    with ScriptedServer(f"text:{REPLY}") as server:
        yield server


def settings_for(folder, server, **more):
    base = None if server is None else server.base_url
    return ServiceSettings(store=str(folder / "store"), embedder="none", world=str(WORLD), upstream=base, **more)


@asynccontextmanager
async def serving(folder, server, **more):
    app = build_app(settings_for(folder, server, **more))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
    ):
        await client.post("/sessions", json={"session_id": "s"})
        yield client


async def prepare(client, message="Where is the key?"):
    answer = await client.post("/sessions/s/turns", json={"message": message})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def read_newest(client):
    return (await client.get("/sessions/s/turns", params={"limit": 1})).json()["items"][-1]


async def test_the_model_server_answers_a_prepared_turn_and_the_reply_is_committed(tmp_path, server):
    async with serving(tmp_path, server, proxy=ProxySettings(key="sk-own")) as client:
        turn = await prepare(client)
        answer = await client.post(f"/sessions/s/turns/{turn['turn_id']}/answer", json={"model": "m"})
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert "data: [DONE]" in answer.text
        assert "Hm." not in answer.text
        newest = await read_newest(client)
        assert newest["turn_id"] == turn["turn_id"]
        assert "Behind the clock." in newest["messages"][-1]["content"]
        (request,) = server.requests
        assert [each.text for each in request.messages] == [each["content"] for each in turn["messages"]]
        assert request.body["model"] == "m"
        assert request.headers["authorization"] == "Bearer sk-own"
        receipt = (await client.get(f"/sessions/s/turns/{turn['turn_id']}/receipt")).json()
        assert receipt["report"].get("sent") is None
        assert len(receipt["calls"]) == 1
        again = await client.post(f"/sessions/s/turns/{turn['turn_id']}/answer", json={"model": "m"})
        assert (again.status_code, again.json()["error"]["code"]) == (409, "turn_not_pending")


async def test_a_prompt_that_was_edited_by_hand_is_sent_and_recorded_as_such(tmp_path, server):
    async with serving(tmp_path, server) as client:
        turn = await prepare(client)
        texts = [each["content"] for each in turn["messages"]]
        path = f"/sessions/s/turns/{turn['turn_id']}"
        wrong = await client.post(f"{path}/answer", json={"texts": texts[1:]})
        assert wrong.status_code == 422
        edited = [*texts[:-1], texts[-1] + "\nAnswer in one word. <b>Now</b>"]
        await client.post(f"{path}/answer", json={"model": "m", "texts": edited})
        assert server.requests[-1].messages[-1].text == edited[-1]
        report = (await client.get(f"{path}/receipt")).json()["report"]
        assert [each["text"] for each in report["sent"]["texts"]] == edited
        assert {each["place"] for each in report["sent"]["texts"][:-1]} <= {"prepared"}
        assert report["sent"]["texts"][-1]["place"] == "edited"
        page = (await client.get(f"{path}/page")).text
        assert "A person edited the prompt for this turn only" in page
        assert "Answer in one word. &lt;b&gt;Now&lt;/b&gt;" in page
        assert (await client.get(f"{path}/replay")).json()["differences"] == []
        assert "Answer in one word" not in str((await prepare(client, "And then?"))["messages"])


async def test_what_came_before_a_stop_is_committed(tmp_path, server):
    words = "One two three four five six seven eight nine ten."
    server.set_script(f"pause:0.3 text:<content>{words}</content>")
    app = build_app(settings_for(tmp_path, server))
    with serve_app(app) as port:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1", timeout=60) as client:
            await client.post("/sessions", json={"session_id": "s"})
            turn = await prepare(client)
            path, came = f"/sessions/s/turns/{turn['turn_id']}/answer", ""
            async with client.stream("POST", path, json={"model": "m"}) as answer:
                async for text in answer.aiter_text():
                    came += text
                    if "two" in came:
                        break
            for _ in range(300):
                if (newest := await read_newest(client))["turn_id"] == turn["turn_id"]:
                    break
                await anyio.sleep(0.1)
    reply = newest["messages"][-1]["content"]
    assert words.startswith(reply)
    assert "ten" not in reply


async def test_a_refusal_is_an_error_with_the_words_of_the_model_server_and_the_turn_waits(tmp_path, server):
    server.set_script("status:401")
    async with serving(tmp_path, server) as client:
        turn = await prepare(client)
        path = f"/sessions/s/turns/{turn['turn_id']}/answer"
        refused = await client.post(path, json={"model": "m"})
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (502, "upstream_refused")
        assert "scripted failure" in error["message"]
        server.set_script("drop")
        assert (await client.post(path, json={"model": "m"})).json()["error"]["code"] == "upstream_unreachable"
        server.set_script("text:Yes.")
        assert (await client.post(path, json={"model": "m"})).status_code == 200
        assert (await read_newest(client))["turn_id"] == turn["turn_id"]


async def test_without_a_model_server_the_error_says_what_to_set(tmp_path):
    async with serving(tmp_path, None) as client:
        turn = await prepare(client)
        refused = await client.post(f"/sessions/s/turns/{turn['turn_id']}/answer", json={})
        assert refused.status_code == 422
        assert "--upstream" in refused.json()["error"]["message"]


async def test_the_state_of_the_model_server_lists_its_models(tmp_path):
    from servers.openai_server import OpenAiServer

    with OpenAiServer() as server:
        app = build_app(ServiceSettings(store=str(tmp_path), embedder="none", upstream=server.base_url))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
        ):
            state = (await client.get("/upstream")).json()
    assert state["fault"] == ""
    assert state["models"]
