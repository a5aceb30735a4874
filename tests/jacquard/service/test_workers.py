"""Several processes: a session's requests come to one of them, whichever took the connection."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import httpx
import pytest
from served import PATIENCE_SECONDS

from jacquard.service.affinity import session_in_path
from jacquard.service.running.workers.places import WorkerPlaces, can_share
from jacquard.service.running.workers.request_session import is_in_body, session_in_body

SESSIONS = [f"s{number}" for number in range(6)]


def call(service, method, path, **sent):
    """Make one call over a connection of its own, so that any of the processes takes it; again until its session's is started."""
    while is_starting(answer := httpx.request(method, f"{service.address}{path}", timeout=PATIENCE_SECONDS, **sent)):
        time.sleep(0.05)
    answer.raise_for_status()
    return answer


def is_starting(answer):
    return answer.status_code == 503 and answer.json()["error"]["code"] == "worker_restarting"


def play(service, session_id, reply):
    call(service, "POST", f"/api/v1/sessions/{session_id}/turns", json={"message": f"What of {session_id}?"})
    for place, part in enumerate(reply.split(" ")):
        chunk = {"chunk": part, "chunk_index": place}
        call(service, "POST", f"/api/v1/sessions/{session_id}/reply/chunks", json=chunk)
    return call(service, "POST", f"/api/v1/sessions/{session_id}/reply/finalize", json={})


def counted(service, name):
    found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)", call(service, "GET", "/metrics").text, re.M)
    return sum(map(float, found))


def workers_of(service):
    started = service.process.pid
    found = Path(f"/proc/{started}/task/{started}/children").read_text(encoding="ascii").split()
    return [int(each) for each in found if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]


def test_turns_come_to_one_process(two_workers):
    service, counters = two_workers, ("jacquard_http_passed_on_total", "jacquard_http_requests_total")
    before = [counted(service, name) for name in counters]
    for session_id in SESSIONS:
        call(service, "POST", "/api/v1/sessions", json={"session_id": session_id})
        play(service, session_id, "One two three four.")
    for session_id in SESSIONS:
        text = call(service, "GET", f"/api/v1/sessions/{session_id}/document").text
        assert "Onetwothreefour." in text
    # Six turns of six requests each reached a process by chance; about half of them was passed on.
    passed_on, requests = (counted(service, name) - old for name, old in zip(counters, before, strict=True))
    assert 5 <= passed_on <= 35
    assert requests >= 36


def test_events_come_from_the_process_of_the_session(two_workers):
    service = two_workers
    for session_id in ("e0", "e1", "e2"):
        call(service, "POST", "/api/v1/sessions", json={"session_id": session_id})
        # Refused until the session's process is started; this message is no part of what follows.
        call(service, "POST", f"/api/v1/sessions/{session_id}/turns", json={"message": "Hello."})
        call(service, "POST", f"/api/v1/sessions/{session_id}/reply/chunks", json={"chunk": "Hello.", "chunk_index": 0})
        call(service, "POST", f"/api/v1/sessions/{session_id}/reply/finalize", json={})
        with httpx.stream(
            "GET", f"{service.address}/api/v1/sessions/{session_id}/events", timeout=PATIENCE_SECONDS
        ) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith(":")
            play(service, session_id, "Good day.")
            kinds = set()
            for line in lines:
                kinds.add(line.removeprefix("event: "))
                if "AssistantMessageFinalized" in kinds:
                    break
        assert {"MessageAppended", "Assembled", "AssistantChunkReceived", "Persisted"} <= kinds


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="finds processes in /proc")
def test_a_killed_process_is_replaced_and_its_sessions_go_on(start_service):
    service = start_service("--workers", "2")
    for session_id in SESSIONS:
        call(service, "POST", "/api/v1/sessions", json={"session_id": session_id})
    before = workers_of(service)
    os.kill(before[0], signal.SIGKILL)
    for session_id in SESSIONS:
        call_again(service, "POST", f"/api/v1/sessions/{session_id}/turns", json={"message": "Still there?"})
    while len(now := workers_of(service)) < 2 or now == before:
        time.sleep(0.05)
    for session_id in SESSIONS:
        play(service, session_id, "Yes indeed.")
    assert service.end() in (0, -15)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="finds processes in /proc")
@pytest.mark.parametrize("number", [0, 1])
def test_a_reply_in_chunks_is_finished_after_its_process_was_killed(start_service, number):
    service = start_service("--workers", "2")
    for session_id in SESSIONS:
        call(service, "POST", "/api/v1/sessions", json={"session_id": session_id})
        call(service, "POST", f"/api/v1/sessions/{session_id}/turns", json={"message": "Still there?"})
        for index, chunk in enumerate(("Yes", " indeed")):
            sent = {"chunk": chunk, "chunk_index": index}
            call(service, "POST", f"/api/v1/sessions/{session_id}/reply/chunks", json=sent)
    os.kill(workers_of(service)[number], signal.SIGKILL)
    for session_id in SESSIONS:
        path, last = f"/api/v1/sessions/{session_id}/reply", {"chunk": ".", "chunk_index": 2}
        call_again(service, "POST", f"{path}/chunks", json=last)
        assert call_again(service, "POST", f"{path}/finalize", json={}).json()["content"] == "Yes indeed."
    assert service.end() in (0, -15)


def call_again(service, *sent, **body):
    """Make one call, and once more if it, or the process that passed it on, was connected with a killed process."""
    try:
        return call(service, *sent, **body)
    except httpx.TransportError:
        pass
    except httpx.HTTPStatusError as error:
        if error.response.json()["error"]["code"] != "worker_ended":
            raise
    return call(service, *sent, **body)


def test_a_place_is_held_by_one_process_and_free_after_it(tmp_path):
    one, other = WorkerPlaces(tmp_path, 2), WorkerPlaces(tmp_path, 2)
    assert (one.claim(), other.claim()) == (True, True)
    assert {one.mine, other.mine} == {"000", "001"}
    third = WorkerPlaces(tmp_path, 2)
    assert not third.claim()
    one.release()
    assert third.claim()
    assert third.mine == "000"
    assert [third.owner_of("t", each) for each in SESSIONS] == [other.owner_of("t", each) for each in SESSIONS]


def test_long_paths_have_no_sockets():
    assert not can_share("/tmp/" + "x" * 100)


@pytest.mark.parametrize(
    ("path", "session_id"),
    [
        ("/api/v1/sessions/tavern/turns", "tavern"),
        ("/api/v1/sessions/a%2Fb", "a/b"),
        ("/api/v1/sessions/%E6%A3%AE%E6%9E%97/events?x=1", "森林"),
        ("/api/v1/sessions", ""),
        ("/api/v1/worlds/tavern", ""),
        ("/v1/models", ""),
    ],
)
def test_session_in_an_address(path, session_id):
    assert session_in_path(path) == session_id


def test_session_in_a_body():
    tool = {"method": "tools/call", "params": {"name": "prepare_turn", "arguments": {"session_id": "tavern"}}}
    assert session_in_body("/mcp", {}, json.dumps(tool).encode()) == "tavern"
    for other in (b"", b"[1]", b'{"params": 3}', b'{"params": {"arguments": {"session_id": 5}}}'):
        assert session_in_body("/mcp", {}, other) == ""
    said = [{"role": "user", "content": "Hello."}]
    named = {"metadata": {"session_id": "tavern"}, "messages": said}
    assert session_in_body("/v1/chat/completions", {}, json.dumps(named).encode()) == "tavern"
    begun = session_in_body("/v1/messages", {}, json.dumps({"messages": said}).encode())
    said += [{"role": "assistant", "content": "Hi."}, {"role": "user", "content": "How are you?"}]
    later = session_in_body("/v1/messages", {}, json.dumps({"messages": said}).encode())
    assert begun == later != ""
    assert session_in_body("/v1/messages", {}, b"no json") == ""
    assert is_in_body("/mcp")
    assert not is_in_body("/metrics")
