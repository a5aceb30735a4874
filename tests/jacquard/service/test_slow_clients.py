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


async def endless_answer(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(10_000):
        await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})


@pytest.mark.parametrize("begun", [b"", b"GET /x HTTP/1.1\r\nHost: a\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(begun):
    with serve_app(never_called, Impatient) as port, connect(port) as connection:
        connection.sendall(begun)
        assert read_to_end(connection) == b""


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
        sent = 0
        with connect(int(service.address.rpartition(":")[2])) as connection:
            connection.sendall(first.encode())
            try:
                while sent < GIGABYTE:
                    sent += connection.send(piece)
            except OSError:
                pass
            assert sent < 100_000_000
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
