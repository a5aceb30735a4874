"""Places for requests are held by work only: not by bodies on their way, not by streams, not by clients that do not read."""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager

import anyio
import httpx
import pytest
from served import PATIENCE_SECONDS, serve_app
from test_slow_clients import connect

from jacquard.config.service import ServiceLimits, ServiceSettings
from jacquard.service.access.admission import Admission, Shares, TooManyRequestsError
from jacquard.service.access.bodies import SMALL_BYTES, BodyRoom
from jacquard.service.access.gate import Gate
from jacquard.service.running.application import build_app
from jacquard.service.values import Principal

ONE = ServiceLimits(at_once=1, waiting=0, body_seconds=600.0)
"""One request at a time, and none may wait."""


@contextmanager
def serving(tmp_path, **limits):
    settings = ServiceSettings(store=str(tmp_path / "store"), embedder="none", limits=ServiceLimits(**limits))
    with (
        serve_app(build_app(settings)) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS) as client,
    ):
        yield port, client


def test_bodies_that_do_not_come_hold_no_place(tmp_path):
    head = "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{}\r\n\r\n{{"
    with serving(tmp_path, at_once=1, waiting=0, body_seconds=600.0) as (port, client), ExitStack() as stack:
        for path in (
            "/api/v1/sessions",
            "/api/v1/sessions/s/turns",
            "/v1/chat/completions",
            "/mcp",
            "/api/v1/estimate",
        ):
            for form in ("Content-Length: 100", "Transfer-Encoding: chunked\r\n\r\n1"):
                connection = stack.enter_context(connect(port))
                connection.sendall(head.format(path, form).encode())
        assert client.get("/api/v1/sessions").status_code == 200
        assert client.post("/api/v1/sessions", json={"session_id": "s"}).status_code == 201


@pytest.mark.parametrize("session_id", ["plain", "a/b", "x y", "%2F", "?", "林舟", "events"])
def test_streams_of_events_hold_no_place(tmp_path, session_id):
    with serving(tmp_path, at_once=1, waiting=0) as (port, client), ExitStack() as stack:
        client.post("/api/v1/sessions", json={"session_id": session_id}).raise_for_status()
        path = f"/api/v1/sessions/{''.join(f'%{byte:02x}' for byte in session_id.encode())}"
        for _ in range(3):
            connection = stack.enter_context(connect(port))
            connection.sendall(f"GET {path}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert client.get(path).json()["session_id"] == session_id


def test_an_id_is_decoded_once(tmp_path):
    with serving(tmp_path) as (_, client):
        client.post("/api/v1/sessions", json={"session_id": "a%2Fb"}).raise_for_status()
        assert client.get("/api/v1/sessions/a%252Fb").json()["session_id"] == "a%2Fb"
        assert client.get("/api/v1/sessions/a%2Fb").status_code == 404


async def find_tenant(token):
    return Principal(tenant=token)


def make_gate(app, **limits):
    settings = ServiceSettings(tenants=True, limits=ServiceLimits(**limits))
    admission = Admission(settings.limits, is_fair=True)
    return Gate(app, settings=settings, admission=admission, find=find_tenant, observe=lambda note: None)


def ask(connection, tenant, path="/x", rest=""):
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {tenant}\r\n{rest}\r\n".encode())


async def long_answer(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(1_000):
        await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def test_answers_that_are_not_read_hold_no_place():
    with serve_app(make_gate(long_answer, at_once=1, waiting=0, streams=9)) as port, ExitStack() as stack:
        for _ in range(5):
            connection = stack.enter_context(connect(port))
            ask(connection, "a")
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        # The other half is for others.
        refused, other = (stack.enter_context(connect(port)) for _ in range(2))
        ask(refused, "a")
        assert refused.recv(100).startswith(b"HTTP/1.1 429")
        ask(other, "b")
        assert other.recv(100).startswith(b"HTTP/1.1 200")


async def endless_stream(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while (await receive())["type"] != "http.disconnect":
        pass


async def endless_call(scope, receive, send):
    scope["state"]["wait_outside"]()
    await endless_stream(scope, receive, send)


@pytest.mark.parametrize(
    ("app", "path"), [(endless_stream, "/api/v1/sessions/s/events"), (endless_call, "/v1/chat/completions")]
)
def test_one_tenant_leaves_streams_to_others(app, path):
    with serve_app(make_gate(app, streams=8)) as port, ExitStack() as stack:
        codes = []
        for tenant in "aaaaabbbc":
            connection = stack.enter_context(connect(port))
            ask(connection, tenant, path)
            codes.append(int(connection.recv(12)[-3:]))
            if codes[-1] == 429:
                told = b""
                while b"}}" not in told:
                    told += connection.recv(65_536)
                assert "its share" in json.loads(told.partition(b"\r\n\r\n")[2])["error"]["message"]
    assert codes == [200, 200, 200, 200, 429, 200, 200, 429, 200]


def test_shares():
    shares = Shares(8, is_fair=True)
    assert [shares.take("a") for _ in range(5)] == [True] * 4 + [False]
    assert [shares.take("b", 3), shares.take("b", 2), shares.take("b")] == [True, False, False]
    shares.give_back("a", 3)
    assert (shares.held_by("a"), shares.total) == (1, 4)
    alone = Shares(8, is_fair=False)
    assert (alone.take("a", 8), alone.take("a")) == (True, False)


@pytest.mark.anyio
async def test_large_bodies_wait_for_room_and_leave_room_to_other_tenants():
    limits = ServiceLimits(at_once=4, body_bytes=1_000, chat_bytes=1_000, waiting_seconds=600.0)
    room, entered = BodyRoom(limits, is_fair=True), []
    async with anyio.create_task_group() as tasks:

        async def come(tenant):
            await room.enter(tenant, 1_000)
            entered.append(tenant)

        for tenant in "aaab":
            tasks.start_soon(come, tenant)
            await anyio.wait_all_tasks_blocked()
        assert entered == ["a", "a", "b"]
        room.leave("a", 1_000)
        await anyio.wait_all_tasks_blocked()
        assert entered == ["a", "a", "b", "a"]


@pytest.mark.anyio
async def test_a_body_that_finds_no_room_in_time_is_refused():
    room = BodyRoom(ServiceLimits(at_once=1, body_bytes=1_000, chat_bytes=1_000, waiting_seconds=0.01), is_fair=False)
    await room.enter("a", 600)
    with pytest.raises(TooManyRequestsError):
        await room.enter("a", 600)
    room.leave("a", 600)
    await room.enter("a", 1_000)


@pytest.mark.parametrize("form", ["sized", "chunked"])
def test_bodies_on_their_way_are_bounded_and_small_ones_pass(tmp_path, form):
    body = b" " * (2 * SMALL_BYTES)
    sized, chunked = (
        f"Content-Length: {len(body) + 1}\r\n\r\n",
        f"Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n",
    )
    head = "POST /api/v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    begun = (head + (sized if form == "sized" else chunked)).encode() + body
    limits = {
        "at_once": 2,
        "body_bytes": 2 * len(body),
        "chat_bytes": 1_000,
        "body_seconds": 600.0,
        "waiting_seconds": 0.2,
    }
    with serving(tmp_path, **limits) as (port, client), ExitStack() as stack:
        codes = set()
        # Four of this size, two of an unknown size.
        for _ in range(5):
            connection = stack.enter_context(connect(port))
            connection.settimeout(1)
            connection.sendall(begun)
            try:
                codes.add(connection.recv(12)[-3:])
            except TimeoutError:
                continue
        assert codes == {b"429"}
        assert client.post("/api/v1/sessions", json={"session_id": "s"}).status_code == 201
