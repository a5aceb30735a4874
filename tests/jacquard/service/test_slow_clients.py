"""Clients that send or read slowly, or more than they may: each is left, and holds nothing."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import anyio
import httpx
import pytest
from served import serve_app

from jacquard.config.service import ServiceLimits, ServiceSettings
from jacquard.service.access.admission import Admission
from jacquard.service.access.gate import Gate
from jacquard.service.running.protocol import LimitedProtocol

GIGABYTE = 1_000_000_000


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.settimeout(60)
    return connection


def read_to_end(connection):
    """What comes before the server closes the connection."""
    received = b""
    while True:
        try:
            more = connection.recv(65_536)
        except ConnectionError:
            return received
        if not more:
            return received
        received += more


class Impatient(LimitedProtocol):
    head_seconds = unread_seconds = 0.2


async def never_called(scope, receive, send):
    raise AssertionError


async def refuse(scope, receive, send):
    """Answer without reading the body."""
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


async def repeat_headers(scope, receive, send):
    """Read the body, and answer with the names of the headers."""
    while (await receive()).get("more_body"):
        pass
    names = b",".join(name for name, _ in scope["headers"])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(names))]})
    await send({"type": "http.response.body", "body": names})


async def endless_answer(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(10_000):
        await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})


@pytest.mark.parametrize("begun", [b"", b"GET /x HTTP/1.1\r\nHost: a\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(begun):
    with serve_app(never_called, Impatient) as port, connect(port) as connection:
        connection.sendall(begun)
        assert read_to_end(connection) == b""


CHUNKED = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
SIZED = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % GIGABYTE
ENDLESS = {
    "the line of a request": (b"GET /", b"x" * 65_536),
    "a header": (b"GET /x HTTP/1.1\r\na: ", b"b" * 65_536),
    "headers": (b"GET /x HTTP/1.1\r\n", b"a: b\r\n" * 10_000),
    "a chunk extension": (CHUNKED + b"2;", b"x" * 65_536),
    "a size of a chunk": (CHUNKED, b"0" * 65_536),
    "a trailer": (CHUNKED + b"2\r\n{}\r\n0\r\na: ", b"b" * 65_536),
    "a name of a trailer": (CHUNKED + b"2\r\n{}\r\n0\r\na", b"b" * 65_536),
    "trailers": (CHUNKED + b"2\r\n{}\r\n0\r\n", b"a: b\r\n" * 10_000),
}
ENDLESS_BODIES = {
    "a body of one size": (SIZED, b"x" * 65_536),
    "a body in chunks": (CHUNKED, b"10000\r\n" + b"x" * 65_536 + b"\r\n"),
}


@pytest.mark.parametrize("application", [refuse, repeat_headers])
@pytest.mark.parametrize("form", ENDLESS)
def test_what_has_no_end_beside_a_body_is_cut_off(form, application):
    first, piece = ENDLESS[form]
    with serve_app(application) as port, connect(port) as connection:
        assert send_on(connection, first, piece) < 10_000_000


@pytest.mark.parametrize("form", ENDLESS_BODIES)
def test_a_body_without_an_end_is_not_read_after_its_refusal(form):
    with serve_app(refuse) as port, connect(port) as connection:
        assert send_on(connection, *ENDLESS_BODIES[form]) < 10_000_000


@pytest.mark.parametrize("form", ENDLESS_BODIES | ENDLESS)
def test_the_rest_of_a_refused_request_is_not_waited_for(form):
    first, _ = (ENDLESS_BODIES | ENDLESS)[form]
    with serve_app(refuse, Impatient) as port, connect(port) as connection:
        connection.sendall(first)
        read_to_end(connection)


def test_a_refused_body_of_a_common_size_gets_its_answer_and_keeps_the_connection():
    body = b"x" * 900_000
    with serve_app(refuse) as port, connect(port) as connection:
        for _ in range(2):
            connection.sendall(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 401")


def test_trailers_are_read_and_are_no_headers():
    sent = CHUNKED + b"2;ext=1\r\n{}\r\n0\r\nauthorization: Bearer b\r\nhost: c\r\n\r\n"
    with serve_app(repeat_headers) as port, connect(port) as connection:
        for _ in range(2):
            connection.sendall(sent)
            assert connection.recv(65_536).endswith(b"\r\n\r\nhost,transfer-encoding")


def send_on(connection, first, piece):
    """Send until the server closes the connection; return how many bytes were sent."""
    sent = 0
    try:
        connection.sendall(first)
        while sent < GIGABYTE:
            sent += connection.send(piece)
    except OSError:
        pass
    return sent


def test_an_answer_that_is_not_read_is_given_up():
    with serve_app(endless_answer, Impatient) as port, connect(port) as connection:
        connection.sendall(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
        time.sleep(1)
        # What the system had taken can be read, and then nothing more.
        assert len(read_to_end(connection)) < 10_000 * 65_536


def test_a_gigabyte_is_refused_early(start_service):
    service = start_service()
    status = Path(f"/proc/{service.process.pid}/status")
    head = "POST /api/v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {GIGABYTE}\r\n\r\n"
    chunked = head.replace(f"Content-Length: {GIGABYTE}", "Transfer-Encoding: chunked")
    before = memory_kb(status)
    for first, piece in ((head, b" " * 65_536), (chunked, b"10000\r\n" + b" " * 65_536 + b"\r\n")):
        with connect(int(service.address.rpartition(":")[2])) as connection:
            assert send_on(connection, first.encode(), piece) < 100_000_000
    assert memory_kb(status) - before < 50_000
    assert httpx.get(f"{service.address}/healthz", timeout=60).status_code == 200


def memory_kb(status):
    """The largest memory that a process has had."""
    if not status.exists():
        return 0
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))


@pytest.mark.anyio
async def test_a_request_that_takes_too_long_is_ended():
    ended = []

    async def hang(scope, receive, send):
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(scope["path"])

    settings = ServiceSettings(limits=ServiceLimits(request_seconds=0.1))
    admission = Admission(settings.limits)
    gate = Gate(hang, settings=settings, admission=admission, find=None, observe=lambda note: None)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url="http://127.0.0.1") as client:
        answer = await client.get("/api/v1/sessions")
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "timeout")
    assert ended == ["/api/v1/sessions"]
    assert admission.running == 0
