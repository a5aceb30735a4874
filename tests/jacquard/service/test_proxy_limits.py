"""Calls that wait for the model server hold no place among the requests that are worked on, and have no limit of time."""

from __future__ import annotations

import anyio
import httpx
import pytest

from jacquard.config.service import ServiceLimits, ServiceSettings
from jacquard.service.running.application import build_app
from jacquard.testing.server import ScriptedServer

pytestmark = pytest.mark.anyio


@pytest.fixture
def server():
    with ScriptedServer("slow:0.6 text:Noted.") as server:
        yield server


async def run(tmp_path, server, limits, calls):
    app = build_app(
        ServiceSettings(store=str(tmp_path / "store"), upstream=server.base_url, embedder="none", limits=limits)
    )
    transport = httpx.ASGITransport(app=app)
    codes = []
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30) as http,
        anyio.create_task_group() as tasks,
    ):

        async def ask(number):
            body = {"model": "m", "messages": [{"role": "user", "content": f"Hello {number}."}]}
            codes.append((await http.post("/v1/chat/completions", json=body)).status_code)

        for number in range(calls):
            tasks.start_soon(ask, number)
    return sorted(codes)


async def test_one_place_serves_many_calls_that_wait(tmp_path, server):
    limits = ServiceLimits(at_once=1, waiting=10, waiting_seconds=20.0, request_seconds=20.0)
    assert await run(tmp_path, server, limits, 4) == [200] * 4


async def test_an_answer_may_take_longer_than_a_request(tmp_path, server):
    server.set_script("slow:3 text:Noted.")
    assert await run(tmp_path, server, ServiceLimits(request_seconds=2.5), 1) == [200]


async def test_calls_above_the_limit_of_streams_are_refused(tmp_path, server):
    assert await run(tmp_path, server, ServiceLimits(streams=1), 2) == [200, 429]
