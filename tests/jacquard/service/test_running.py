"""The service as a process: how it ends, what its log says, several workers, slow clients."""

from __future__ import annotations

import ctypes
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import httpx
import pytest
from served import PATIENCE_SECONDS
from typer.testing import CliRunner

from jacquard.cli.app import app
from jacquard.config.service import ServiceLimits, ServiceSettings
from jacquard.service.access.admission import Admission
from jacquard.service.running.application import build_app
from jacquard.service.running.metrics import ServiceMetrics
from mnemosyne import SqliteStore

FOREST = Path(__file__).parents[3] / "examples" / "whispering_forest" / "en"
WORD = "Rosebud-7Q"
DROP_CAPABILITY, NET_BIND_SERVICE = 24, 10
"""Numbers of Linux, for `prctl`."""


def connect(service):
    connection = socket.create_connection(("127.0.0.1", int(service.address.rpartition(":")[2])))
    connection.settimeout(PATIENCE_SECONDS)
    return connection


async def wait_until(condition):
    with anyio.fail_after(PATIENCE_SECONDS):
        while True:
            if condition():
                return
            await anyio.sleep(0.05)


@pytest.mark.parametrize("options", [(), ("--workers", "2"), ("--host", "localhost")])
def test_a_port_that_is_in_use_is_said_in_one_sentence(tmp_path, options):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(app, serve_on(tmp_path, "--port", port, *options))
    host = "localhost" if "--host" in options else "127.0.0.1"
    said = f"error: Port {port} of {host} is in use by another process; end that one, or choose another --port.\n"
    assert (done.exit_code, done.stderr) == (2, said)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("host", ["192.0.2.7", "2001:db8::7", "no-such-host.invalid"])
def test_an_address_that_this_machine_does_not_have_is_said_in_one_sentence(tmp_path, host):
    done = CliRunner().invoke(app, serve_on(tmp_path, "--host", host, "--tenants"))
    said = (
        f"error: This machine has no address {host!r}, so nobody can call the service there; choose another --host.\n"
    )
    assert (done.exit_code, done.stderr) == (2, said)


def test_a_port_that_needs_rights_is_said_in_one_sentence(tmp_path):
    start = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
    if not start.exists() or int(start.read_text()) <= 80:
        pytest.skip("every user of this machine may listen on any port")
    # Root loses the right too.
    drop = partial(ctypes.CDLL(None).prctl, DROP_CAPABILITY, NET_BIND_SERVICE)
    command = [sys.executable, "-m", "jacquard", *serve_on(tmp_path, "--port", 80)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, preexec_fn=drop)
    said = "error: This user may not listen on port 80 of 127.0.0.1; choose a --port from 1024 on.\n"
    assert (done.returncode, done.stderr) == (2, said)


def serve_on(folder, *options):
    words = ["operate", "serve", "--store", folder / "store", "--embedder", "none", *options]
    return [str(each) for each in words]


def test_a_request_under_way_is_finished_when_the_service_is_asked_to_end(start_service):
    service = start_service()
    with httpx.Client(base_url=service.address, timeout=PATIENCE_SECONDS) as client:
        client.post("/api/v1/sessions", json={"session_id": "s"}).raise_for_status()
        answers = []

        def ask() -> None:
            # A body that comes in two parts keeps the request under way.
            with connect(service) as connection:
                body = json.dumps({"message": "Hello.", "turn_id": "t"}).encode()
                head = f"POST /api/v1/sessions/s/turns HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
                connection.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body[:5])
                begun.set()
                asked.wait()
                connection.sendall(body[5:])
                answers.append(connection.recv(65_536))

        begun, asked = threading.Event(), threading.Event()
        thread = threading.Thread(target=ask)
        thread.start()
        begun.wait()
        # What came before is read before this is answered.
        client.get("/healthz").raise_for_status()
        service.process.terminate()
        asked.set()
        thread.join()
    assert service.process.wait(PATIENCE_SECONDS) in (0, -15)
    assert answers[0].startswith(b"HTTP/1.1 200")
    again = start_service()
    assert httpx.get(f"{again.address}/api/v1/sessions/s/turns/t", timeout=PATIENCE_SECONDS).status_code == 200


def test_a_stream_of_events_ends_with_the_service(start_service):
    service = start_service()
    with httpx.Client(base_url=service.address, timeout=PATIENCE_SECONDS) as client:
        client.post("/api/v1/sessions", json={"session_id": "s"}).raise_for_status()
        with client.stream("GET", "/api/v1/sessions/s/events") as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith(":")
            client.post("/api/v1/sessions/s/turns", json={"message": "Hello."}).raise_for_status()
            chunk = {"chunk": "Good day.", "chunk_index": 0}
            client.post("/api/v1/sessions/s/reply/chunks", json=chunk).raise_for_status()
            client.post("/api/v1/sessions/s/reply/finalize", json={}).raise_for_status()
            kinds = set()
            for line in lines:
                kinds.add(line.removeprefix("event: "))
                if "AssistantMessageFinalized" in kinds:
                    break
            assert {"MessageAppended", "Assembled", "AssistantChunkReceived", "Persisted"} <= kinds
            service.process.terminate()
            rest = list(lines)
    assert service.process.wait(PATIENCE_SECONDS) in (0, -15)
    assert all(line == "" or line.startswith((":", "event: ", "data: ")) for line in rest)


def test_the_log_names_requests_and_never_what_was_sent(start_service, tmp_path):
    made = subprocess.run(
        [
            *f"{sys.executable} -m jacquard operate tokens create --tenant north --scope admin --store".split(),
            str(tmp_path / "store"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    token = made.stdout.strip()
    service = start_service("--tenants")
    headers = {"Authorization": f"Bearer {token}", "X-Request-ID": "r-1"}
    with httpx.Client(base_url=service.address, headers=headers, timeout=PATIENCE_SECONDS) as client:
        client.post("/api/v1/sessions", json={"session_id": WORD}).raise_for_status()
        client.post(f"/api/v1/sessions/{WORD}/turns", json={"message": WORD, "turn_id": "t1"}).raise_for_status()
        client.post(f"/api/v1/sessions/{WORD}/reply", json={"message": WORD}).raise_for_status()
        client.get(f"/api/v1/sessions/{WORD}/document").raise_for_status()
        client.post(f"/api/v1/sessions/{WORD}/turns", content=b'{"message": 1, "%s": 2}' % WORD.encode())
        client.post("/api/v1/sessions", json={"session_id": WORD}, headers={"Authorization": f"Bearer {WORD}"})
        metrics = client.get("/metrics").text
    service.end()
    text = service.log.read_text(encoding="utf-8")
    assert token not in text
    assert token.split("_", 2)[2] not in text
    assert WORD not in text + metrics
    lines = service.log_lines()
    turn = next(line for line in lines if line.get("operation") == "prepare_turn")
    assert {name: turn[name] for name in ("request_id", "turn_id", "status", "token_id")} == {
        "request_id": "r-1",
        "turn_id": "t1",
        "status": 200,
        "token_id": token.split("_")[1],
    }
    assert [line["audit"] for line in lines if "audit" in line] == ["get_document"]
    assert 'jacquard_http_requests_total{operation="prepare_turn",status="200"} 1.0' in metrics
    assert 'jacquard_turns_total{what="assistant_message"}' in metrics or "jacquard_turns_total" in metrics


def test_workers_share_sessions_and_metrics(start_service):
    service = start_service("--workers", "2")
    with httpx.Client(base_url=service.address, timeout=PATIENCE_SECONDS) as client:
        client.post("/api/v1/sessions", json={"session_id": "s"}).raise_for_status()
    for number in range(6):
        # A connection each, so that both workers get some.
        with httpx.Client(base_url=service.address, timeout=PATIENCE_SECONDS) as client:
            client.post("/api/v1/sessions/s/turns", json={"message": f"Number {number}."}).raise_for_status()
            client.post("/api/v1/sessions/s/reply", json={"message": f"Answer {number}."}).raise_for_status()
    turns = httpx.get(f"{service.address}/api/v1/sessions/s/turns", timeout=PATIENCE_SECONDS).json()
    items = turns["items"] if isinstance(turns, dict) else turns
    assert len(items) == 6
    metrics = httpx.get(f"{service.address}/metrics", timeout=PATIENCE_SECONDS).text
    counted = re.findall(r'^jacquard_http_requests_total{operation="prepare_turn",status="200"} (\S+)', metrics, re.M)
    assert [float(each) for each in counted] == [6.0]
    assert service.end() in (0, -15)


def test_what_an_ended_process_had_under_way_leaves_the_metrics(tmp_path, monkeypatch):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    files = [tmp_path / f"gauge_livesum_{process}.db" for process in (ended.pid, os.getpid())]
    for file in files:
        # An empty file of prometheus_client: how many bytes are used.
        file.write_bytes((8).to_bytes(4, "little") + bytes(4))
    assert ServiceMetrics(Admission(ServiceLimits())).exposition() == b""
    assert [file.exists() for file in files] == [False, True]


def test_workers_end_when_their_parent_is_killed(start_service):
    service = start_service("--workers", "2")
    service.process.kill()
    service.process.wait()
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        try:
            httpx.get(f"{service.address}/healthz", timeout=PATIENCE_SECONDS)
        except httpx.ConnectError:
            return  # Nobody has the port any more.
        except httpx.TransportError:
            continue
        time.sleep(0.05)
    pytest.fail("the workers go on")


def test_a_head_that_does_not_end_is_refused(service_process):
    with connect(service_process) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        received = b""
        with suppress(ConnectionError):
            for _ in range(100):
                connection.sendall(b"X-Long: " + b"a" * 4_000 + b"\r\n")
        with suppress(ConnectionError):
            received = connection.recv(1_000)
    assert received == b"" or received.startswith(b"HTTP/1.1 400")
    assert httpx.get(f"{service_process.address}/healthz", timeout=PATIENCE_SECONDS).status_code == 200


def test_a_header_cannot_be_split_by_an_id(service_process):
    with connect(service_process) as connection:
        request = (
            b"GET /api/v1/sessions/a%0d%0aSet-Cookie:%20x=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-ID: a%0d%0ab\r\n"
        )
        connection.sendall(request + b"Connection: close\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    head = answer.split(b"\r\n\r\n")[0].lower()
    assert answer.startswith(b"HTTP/1.1 422")
    assert b"set-cookie" not in head
    assert b"%0d" not in head


@pytest.mark.anyio
@pytest.mark.parametrize("is_served", [True, False])
async def test_a_process_of_its_own_is_tuned_while_it_serves(is_served):
    before = sys.getswitchinterval()
    app = build_app(ServiceSettings(store="memory:"), is_served=is_served)
    async with app.router.lifespan_context(app):
        assert (sys.getswitchinterval() < before) is is_served
    assert sys.getswitchinterval() == before


@pytest.mark.anyio
async def test_a_process_of_its_own_stores_and_indexes_its_world_before_the_first_request(tmp_path):
    settings = ServiceSettings(store=str(tmp_path / "store"), world=FOREST, embedder="none")
    app = build_app(settings, is_served=True)
    async with app.router.lifespan_context(app):
        await wait_until(lambda: any((tmp_path / "store").glob("index/**/*.*")))
    store = SqliteStore(tmp_path / "store" / "store.db")
    assert set(await store.worlds()) == {"whispering_forest_en"}
    await store.close()


@pytest.mark.anyio
async def test_a_world_that_cannot_be_read_is_named_and_the_service_goes_on(tmp_path, caplog):
    app = build_app(ServiceSettings(store="memory:", world=tmp_path / "nowhere", embedder="none"), is_served=True)
    async with app.router.lifespan_context(app):
        await wait_until(lambda: "nowhere" in caplog.text)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            assert (await client.get("/healthz")).status_code == 200
