"""Large answers of a model server: nothing holds the event loop, which `conftest.py` watches, and what is read has a limit."""

from __future__ import annotations

import json
import threading
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from text_entries import EXAMPLES

from jacquard import RuntimeConfig
from jacquard.config.service import ServiceSettings
from jacquard.service.proxy.replies.answers import MOST_CHARS
from jacquard.service.proxy.replies.events import MOST_READ_BYTES
from jacquard.service.running.application import build_app

pytestmark = pytest.mark.anyio
CALL = {"model": "m", "messages": [{"role": "user", "content": "Hello."}]}
EVENTS = "text/event-stream"


class Upstream(BaseHTTPRequestHandler):
    """Answers each call with the parts that its server has."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(200)
        self.send_header("content-type", self.server.kind)
        self.end_headers()
        try:
            for part in self.server.parts():
                self.wfile.write(part)
        except OSError:
            self.server.cut += 1

    def log_message(self, *_):
        """Write no log."""


@pytest.fixture
def upstream():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    server.cut = 0
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@asynccontextmanager
async def serving(tmp_path, upstream, profile):
    """Serve with replies that are shown as they come (assistant), or in part (the example world)."""
    world = None if profile == "assistant" else str(EXAMPLES / "en")
    address = f"http://127.0.0.1:{upstream.server_port}/v1"
    settings = ServiceSettings(store=str(tmp_path / "store"), embedder="none", world=world, upstream=address)
    app = build_app(settings, RuntimeConfig(profile=profile if world is None else "auto"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", timeout=None) as client,
    ):
        yield client


def event(value):
    return f"data: {json.dumps(value)}\n\n".encode()


def said(text, index=0):
    return event({"model": "m", "choices": [{"index": index, "delta": {"content": text}, "finish_reason": None}]})


def content(text):
    return f"<content>{text}</content>"


STREAMS = {
    "a line without an end": lambda: [b'data: {"a":"', *[b"x" * 1_000_000] * 20],
    "a long line": lambda: [said("x" * 12_000_000)],
    "a long reply": lambda: [said("<content>"), *[said("word " * 200)] * (MOST_CHARS // 1_000 + 1)],
    "many texts": lambda: [said("a", index) for index in range(20_000)],
}
READ_STREAMS = {
    "a line that is read": lambda: [said(content("word " * 20_000))],
    "many events": lambda: [said("<content>"), *[said("w")] * 30_000, said("</content>")],
    "many empty events": lambda: [b": x\n\n" * 200_000, said(content("Fine."))],
    "many fields": lambda: [event({f"k{number}": 1 for number in range(200_000)}), said(content("Fine."))],
    "many counts": lambda: [event({"usage": {f"k{number}": 1 for number in range(200_000)}}), said(content("Fine."))],
    "a deep tree": lambda: [b"data: " + b"[" * 500_000 + b"\n\n", said(content("Fine."))],
}
WHOLE = {
    "long": (lambda: "x" * 2_500_000, {}),
    "with many fields": (lambda: content("Fine."), {f"k{number}": [{}] for number in range(200_000)}),
    "with a long list": (lambda: content("Fine."), {"logprobs": [{"a": 1}] * 400_000}),
}


async def reply_of(client):
    """Return the reply that was kept; None if none was."""
    (session_id,) = (await client.get("/api/v1/sessions")).json()["items"]
    turns = (await client.get(f"/api/v1/sessions/{session_id}/turns")).json()["items"]
    newest = max(turns, key=lambda turn: turn["depth"], default={"messages": []})["messages"]
    texts = {each["role"]: each["content"] for each in newest}
    return texts.get("assistant") if texts.get("user") == "Hello." else None


@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_that_is_too_large_passes_unread_if_it_may_be_shown(tmp_path, upstream, name):
    upstream.kind, upstream.parts = EVENTS, STREAMS[name]
    async with serving(tmp_path, upstream, "assistant") as client:
        answer = await client.post("/v1/chat/completions", json={**CALL, "stream": True})
        assert answer.content == b"".join(STREAMS[name]())
        assert await reply_of(client) is None


@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_that_is_too_large_breaks_off_if_a_part_of_it_may_not_be_shown(tmp_path, upstream, name):
    upstream.kind, upstream.parts = EVENTS, STREAMS[name]
    async with serving(tmp_path, upstream, "story") as client:
        # The transport of this client asserts that an answer is whole; over a connection the client sees it break.
        with pytest.raises(AssertionError):
            await client.post("/v1/chat/completions", json={**CALL, "stream": True})


@pytest.mark.parametrize("profile", ["assistant", "story"])
@pytest.mark.parametrize("name", READ_STREAMS)
async def test_a_stream_of_large_parts_holds_nothing_up(tmp_path, upstream, name, profile):
    upstream.kind, upstream.parts = EVENTS, lambda: [*READ_STREAMS[name](), b"data: [DONE]\n\n"]
    async with serving(tmp_path, upstream, profile) as client:
        answer = await client.post("/v1/chat/completions", json={**CALL, "stream": True})
        assert answer.content.endswith(b"data: [DONE]\n\n")
        assert await reply_of(client)


def whole(text, more):
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return json.dumps({"model": "m", "choices": [choice], **more}).encode()


@pytest.mark.parametrize("profile", ["assistant", "story"])
@pytest.mark.parametrize("name", WHOLE)
async def test_a_large_answer_holds_nothing_up(tmp_path, upstream, name, profile):
    body = whole(WHOLE[name][0](), WHOLE[name][1])
    assert len(body) < MOST_READ_BYTES
    upstream.kind, upstream.parts = "application/json", lambda: [body]
    async with serving(tmp_path, upstream, profile) as client:
        answer = await client.post("/v1/chat/completions", json=CALL)
        assert answer.status_code == (502 if (name, profile) == ("long", "story") else 200)


@pytest.mark.parametrize(("profile", "status"), [("assistant", 200), ("story", 502)])
async def test_an_answer_that_is_too_large_is_not_read(tmp_path, upstream, profile, status):
    body = whole("x" * 20_000_000, {})
    upstream.kind, upstream.parts = "application/json", lambda: [body]
    async with serving(tmp_path, upstream, profile) as client:
        answer = await client.post("/v1/chat/completions", json=CALL)
        assert answer.status_code == status
        assert (answer.content == body) == (status == 200)
        # What is no turn passes whole.
        assert (await client.post("/v1/audio", json={})).content == body
