"""Streams through a real server: without delay, cut off by the client, and with elements that the client must not see."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import openai
import pytest
import uvicorn

from jacquard.config.service import ServiceSettings
from jacquard.service.running.application import build_app
from jacquard.testing.server import ScriptedServer, Step

WORLD = str(Path(__file__).parents[3] / "examples" / "whispering_forest" / "en")
UPDATE = '[["ADD", "hero.gold", 5]]'
REPLY = (
    f"<thought>He finds it.</thought><content>A purse lies in the moss.</content><state_update>{UPDATE}</state_update>"
)
SHOWN = "A purse lies in the moss."


@pytest.fixture
def server():
    with ScriptedServer("text:Noted.") as server:
        yield server


@pytest.fixture
def serve(tmp_path, server):
    """Return what runs a service in front of the scripted server and returns its address."""
    running = []

    def start(**settings):
        app = build_app(
            ServiceSettings(store=str(tmp_path / "store"), upstream=server.base_url, embedder="none", **settings)
        )
        config = uvicorn.Config(app, port=0, log_level="warning", access_log=False, timeout_graceful_shutdown=5)
        service = uvicorn.Server(config)
        thread = threading.Thread(target=service.run, daemon=True)
        thread.start()
        running.append((service, thread))
        while not service.started:
            time.sleep(0.02)
        return f"http://127.0.0.1:{service.servers[0].sockets[0].getsockname()[1]}"

    yield start
    for service, thread in running:
        service.should_exit = True
        thread.join()


def wait_until(holds):
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def said(address, session="tea"):
    turns = httpx.get(f"{address}/api/v1/sessions/{session}/turns").json()["items"]
    return [each["content"] for turn in sorted(turns, key=lambda turn: turn["depth"]) for each in turn["messages"]]


def call(address, **body):
    return {
        "url": f"{address}/v1/chat/completions",
        "headers": {"X-Jacquard-Session": "tea"},
        "json": {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hello."}], **body},
    }


def test_each_event_comes_when_the_model_server_sends_it(serve, server):
    server.set_script("pause:0.2 text:one two three four")
    with httpx.stream("POST", **call(serve())) as answer:
        times = [time.monotonic() for _ in answer.iter_raw()]
    assert times[-1] - times[0] > 0.5


def test_pictures_of_32_megabytes_pass_and_are_kept_and_what_is_larger_is_told_so(serve, server):
    address = serve()

    def ask(size):
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * size}"}}
        message = {"role": "user", "content": [{"type": "text", "text": "What is on it?"}, picture]}
        return httpx.post(**call(address, messages=[message], stream=False), timeout=600)

    answer = ask(32_000_000)
    assert (answer.status_code, answer.headers.get("x-jacquard-error")) == (200, None)
    assert len(server.requests[0].body["messages"][-1]["content"][1]["image_url"]["url"]) > 32_000_000
    assert said(address) == ["What is on it?", "Noted."]
    answer = ask(60_000_000)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
    assert "48,000,000 bytes (service.limits.chat_bytes)" in answer.json()["error"]["message"]
    answer = httpx.post(f"{address}/api/v1/sessions", json={"session_id": "x" * 9_000_000})
    assert (answer.status_code, "limits.body_bytes" in answer.json()["error"]["message"]) == (413, True)


def test_a_client_that_hangs_up_ends_the_call_and_keeps_what_it_saw(serve, server):
    server.set_script("pause:0.1 text:" + "and so it went on, " * 40)
    address = serve()
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="sk-x", default_headers={"X-Jacquard-Session": "tea"})
    seen = ""
    stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello."}], stream=True)
    for chunk in stream:
        seen += chunk.choices[0].delta.content or ""
        if len(seen) > 20:
            break
    stream.close()
    wait_until(lambda: server.cancelled == [0])
    wait_until(lambda: len(said(address)) == 2)
    assert said(address)[1].startswith(seen)
    assert len(said(address)[1]) < 200


def test_a_client_that_hangs_up_before_the_answer_begins_leaves_the_turn_open(serve, server):
    server.set_script("slow:1 text:Late.")
    address = serve()
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(**call(address), timeout=0.5)
    server.set_script("text:In time.")
    assert httpx.post(**call(address)).status_code == 200
    assert said(address) == ["Hello.", "In time."]


@pytest.mark.parametrize("streams", [True, False])
def test_elements_of_the_reply_are_taken_out_and_applied(serve, server, streams):
    server.set_script(f"text:{REPLY}")
    address = serve(world=WORLD)
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="sk-x", default_headers={"X-Jacquard-Session": "tea"})
    messages = [{"role": "user", "content": "I look under the ferns."}]
    answer = client.chat.completions.create(model="m", messages=messages, stream=streams)
    text = (
        "".join(chunk.choices[0].delta.content or "" for chunk in answer)
        if streams
        else answer.choices[0].message.content
    )
    assert text == SHOWN
    assert said(address)[-1] == SHOWN
    assert "state_update" in json.dumps(server.requests[-1].body)
    state = httpx.get(f"{address}/api/v1/sessions/tea/state").text
    assert json.loads(state)["hero"]["gold"] == 27, state[:300]


def test_without_state_a_stream_passes_byte_for_byte(serve, server):
    text = f"<b>Bold</b> {REPLY} &lt; <content>x"
    server.set_script(lambda request: Step(text=text))
    address = serve()
    through = httpx.post(**call(address)).content
    direct = httpx.post(**{**call(address), "url": f"{server.base_url}/chat/completions"}).content
    assert pieces(through) == pieces(direct)
    assert said(address)[1] == text


def pieces(body):
    events = [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: {")]
    return [event["choices"] for event in events]


OUTSIDE = [
    "../files",
    "%2e%2e/files",
    "%2E./x",
    "./x",
    "..%2fx",
    "..%2Fx",
    "%252e%252e/x",
    "..%252fx",
    "%25252e%25252e%25252fx",
    "..\\x",
    "..%5cx",
    "..%255cx",
    "..;/x",
    "..%3b/x",
    "..;a=b/x",
    "..%3fx",
    "..%23x",
    "x/..%2f..%2fy",
    "%c0%ae%c0%ae/x",
    "%u002e%u002e/x",
    "..%u2215x",
    "%ef%bc%8e%ef%bc%8e/x",
    "..%ef%bc%8fx",
    "..%20/x",
    "...%20/x",
    "x%00",
    "x%0d%0aX-Evil:1",
    "x%ff",
    "%25252525252e",
    "..%e2%88%95x",
]
INSIDE = [
    "m",
    "meta-llama/Llama-3",
    "meta-llama%2FLlama-3.1",
    "@cf/meta/m",
    "a%20b",
    "100%25",
    "%E6%A8%A1%E5%9E%8B",
    ".hidden",
    "v1..2",
    "a;b",
    "x...y",
    "a%2Fb.gguf",
    "//evil.example/x",
    "@evil",
    "x%2523",
]


def call_path(address, path, method="POST", **headers):
    """Return the status; the path and the headers are sent as they are."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"))
    connection.putrequest(method, path, skip_host="host" in headers)
    for name, value in {"content-length": "2", **headers}.items():
        connection.putheader(name, value)
    connection.endheaders(b"{}")
    try:
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("folder", ["", "models/", "models/a%2F", "files/f/"])
def test_no_path_leads_out_of_the_model_servers_interface(serve, server, folder):
    address = serve()
    for method in ("GET", "POST"):
        found = {path: call_path(address, f"/v1/{folder}{path}", method) for path in OUTSIDE}
        assert found == dict.fromkeys(OUTSIDE, 404)
    assert server.requests == []


def test_other_paths_go_to_the_model_server_as_they_are(serve, server):
    address = serve()
    for path in INSIDE:
        call_path(address, f"/v1/models/{path}?x=%2e%2e%2f")
    assert [each.path for each in server.requests] == [f"/v1/models/{path}?x=%2e%2e%2f" for path in INSIDE]


def test_the_name_of_the_host_is_no_part_of_the_path(serve, server, tmp_path):
    token = subprocess.run(
        [
            sys.executable,
            "-m",
            "jacquard",
            "operate",
            "tokens",
            "create",
            "--tenant",
            "t",
            "--scope",
            "play",
            "--store",
            str(tmp_path / "store"),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    address = serve(tenants=True)
    for host in ("127.0.0.1", "x/../admin?", "x/v1/../../admin#", "a@b/files?"):
        call_path(address, "/v1/messages/count_tokens?q=1", host=host, authorization=f"Bearer {token}")
    assert [each.path for each in server.requests] == ["/v1/messages/count_tokens?q=1"] * 4
