"""Headers of any bytes: each is read, goes upstream and comes back as it was, and none is a failure of the service."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from served import PATIENCE_SECONDS, serve_app

from jacquard import RuntimeConfig
from jacquard.config.service import ProxySettings, ServiceSettings
from jacquard.remote.operations import OPERATIONS
from jacquard.service.running.application import build_app

NAMES = [
    "accept",
    "accept-encoding",
    "accept-language",
    "authorization",
    "connection",
    "content-encoding",
    "content-language",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "from",
    "host",
    "idempotency-key",
    "if-match",
    "last-event-id",
    "link",
    "mcp-protocol-version",
    "mcp-session-id",
    "origin",
    "range",
    "referer",
    "te",
    "upgrade",
    "user-agent",
    "via",
    "x-api-key",
    "x-forwarded-for",
    "x-jacquard-session",
    "x-openwebui-chat-id",
    "x-request-id",
    "x-title",
]
VALUES = {
    "utf-8": "模型 é 🔑".encode(),
    "latin-1": b"caf\xe9 \xb2",
    "every byte": bytes([*range(0x21, 0x7F), *range(0x80, 0x100)]),
    "no value": b"",
    "a long one": b"\xff" * 4_000,
}
PATHS = [(each.method, each.path) for each in OPERATIONS if each.name != "stream_events"]
PATHS += [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/mcp"),
]
PATHS += [("GET", path) for path in ("/v1/models", "/v1/models/m", "/v1/files", "/metrics", "/openapi.json", "/readyz")]
ANSWER = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "Fine."}}]}).encode()
CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hello."}]}


class Upstream(BaseHTTPRequestHandler):
    """Answers each call, and keeps its headers as bytes."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.seen.append({name.lower(): value.encode("latin-1") for name, value in self.headers.items()})
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("x-model-name", VALUES["utf-8"].decode("latin-1"))
        self.send_header("content-length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_):
        """Write no log."""


@contextmanager
def upstream():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    server.seen = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serving(tmp_path, **settings):
    with upstream() as (server, address):
        app = build_app(
            ServiceSettings(store=str(tmp_path / "store"), embedder="none", upstream=address, **settings),
            RuntimeConfig(profile="assistant"),
        )
        with (
            serve_app(app) as port,
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS, trust_env=False) as client,
        ):
            yield server, client


@pytest.mark.parametrize("value", VALUES)
def test_no_header_makes_a_request_fail(tmp_path, value):
    with serving(tmp_path) as (_, client):
        for method, path in PATHS:
            body = CHAT if path.startswith("/v1") else {}
            for names in ([name for name in NAMES if name not in ("content-type", "host", "expect")], ["content-type"]):
                headers = [(name.encode(), VALUES[value]) for name in names]
                if names != ["content-type"]:
                    headers.append((b"content-type", b"application/json"))
                answer = client.request(method, path, headers=headers, content=json.dumps(body))
                assert answer.status_code < 500, (method, path, names, answer.text)


@pytest.mark.parametrize("name", NAMES)
def test_no_single_header_makes_a_call_fail(tmp_path, name):
    with serving(tmp_path) as (_, client):
        for value in VALUES.values():
            for method, path in (("POST", "/api/v1/sessions"), ("POST", "/v1/chat/completions"), ("POST", "/mcp")):
                headers = {b"content-type": b"application/json"} | {name.encode(): value}
                answer = client.request(method, path, headers=headers, content=json.dumps(CHAT))
                assert answer.status_code < 500, (path, value, answer.text)


def test_headers_go_upstream_and_come_back_as_they_were(tmp_path):
    with serving(tmp_path) as (server, client):
        for value in (VALUES["utf-8"], VALUES["latin-1"], VALUES["every byte"]):
            answer = client.post("/v1/chat/completions", headers={b"x-title": value}, json=CHAT)
            assert answer.status_code == 200
            assert "x-jacquard-error" not in answer.headers
            assert server.seen[-1]["x-title"] == value
            assert dict(answer.headers.raw)[b"x-model-name"] == VALUES["utf-8"]


@pytest.mark.parametrize(("sent", "name"), [("会话".encode(), "会话"), (b"caf\xe9", "café"), ("café".encode(), "café")])
def test_a_session_is_named_in_any_letters(tmp_path, sent, name):
    with serving(tmp_path) as (_, client):
        answer = client.post("/v1/chat/completions", headers={b"x-jacquard-session": sent}, json=CHAT)
        assert answer.headers["x-jacquard-receipt"]
        assert client.get("/api/v1/sessions").json()["items"] == [name]
        assert client.get(answer.headers["x-jacquard-receipt"]).status_code == 200


def test_a_key_of_any_letters_goes_upstream(tmp_path):
    with serving(tmp_path, proxy=ProxySettings(key="schlüssel-钥匙")) as (server, client):
        client.post("/v1/chat/completions", json=CHAT).raise_for_status()
        assert "authorization" not in server.seen[-1]


def raw(address, request):
    """Return the status of an answer to bytes."""
    with socket.create_connection(address) as connection:
        connection.settimeout(PATIENCE_SECONDS)
        connection.sendall(request)
        return int(connection.recv(12)[-3:])


def test_headers_pass_between_workers(start_service):
    service = start_service("--workers", "2")
    address = ("127.0.0.1", int(service.address.rpartition(":")[2]))
    lines = b"".join(b"x-%s: %s\r\n" % (str(at).encode(), value) for at, value in enumerate(VALUES.values()))
    for number in range(8):
        for version, host in (
            (b"1.1", b"Host: 127.0.0.1\r\n"),
            (b"1.0", b"Host: localhost\r\n"),
            (b"1.1", b"host: 127.0.0.1\r\n" * 2),
        ):
            body = json.dumps({"message": "Hello."}).encode()
            head = b"POST /api/v1/sessions/s%d/turns HTTP/%s\r\n%s%s" % (number, version, host, lines)
            head += b"Idempotency-Key: \xe9\xff\r\nUser-Agent: \xe6\xa8\xa1\r\nContent-Type: application/json\r\n"
            # Who owns a session may be starting; everything else is answered.
            status = 503
            while status == 503:
                status = raw(address, head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert status == 200 if number == 0 else status in (200, 201, 404, 422), status
