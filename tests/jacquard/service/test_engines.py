"""The engine in this process and the engine of a service keep to the same contract."""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager

import httpx
import pytest
from anyio import to_thread
from served import serve_app

from jacquard import ContextEngine, RuntimeConfig, open_runtime
from jacquard.client import RemoteEngine, ServiceError, ServiceUnreachableError
from jacquard.config.service import ServiceSettings
from jacquard.remote.operations import OPERATIONS
from jacquard.service.running.application import build_app
from jacquard.testing.engine import EngineContract

SETTINGS = RuntimeConfig(profile="assistant")
LOCAL_ONLY = {
    "settle": "work behind turns is the service's own; it waits for it when it ends",
    "parts": "objects of the process",
    "config": "objects of the process",
    "emitter": "objects of the process; `events` gives the events",
    "worlds": "objects of the process; the operations on worlds read and write packs",
    "retell": "the proxy brings a session to where a chat client is; edit_message, rollback and adopt_messages do it one by one",
}
"""What only an engine in the same process has, and why."""


class TestLocalEngine(EngineContract):
    @asynccontextmanager
    async def open_engine(self, folder):
        async with open_runtime(folder / "store", embedder="none", config=SETTINGS) as runtime:
            yield runtime.engine


class TestRemoteEngine(EngineContract):
    @asynccontextmanager
    async def open_engine(self, folder):
        app = build_app(ServiceSettings(store=str(folder / "store"), embedder="none"), SETTINGS)
        served = serve_app(app)
        port = await to_thread.run_sync(served.__enter__)
        try:
            async with RemoteEngine(f"http://127.0.0.1:{port}", include=["report"]) as engine:
                yield engine
        finally:
            await to_thread.run_sync(served.__exit__, None, None, None)


def test_every_method_of_the_engine_is_there_with_its_parameters_and_has_its_operation():
    methods = {
        name: each
        for name, each in vars(ContextEngine).items()
        if not name.startswith("_") and (inspect.isfunction(each) or isinstance(each, property))
    }
    assert {name for name in methods if not hasattr(RemoteEngine, name)} == set(LOCAL_ONLY)
    named = {each.python for each in OPERATIONS}
    assert {name for name in methods if f"ContextEngine.{name}" not in named} == {
        *LOCAL_ONLY,
        "close",
        "continue_session",
    }
    for name, method in methods.items():
        if name in LOCAL_ONLY:
            continue
        expected = dict(inspect.signature(method).parameters)
        for local in ("progress", "finish"):
            expected.pop(local, None)
        assert list(inspect.signature(getattr(RemoteEngine, name)).parameters.values()) == list(expected.values()), name


@pytest.mark.anyio
async def test_a_service_that_is_not_there_is_said():
    async with RemoteEngine("http://127.0.0.1:9") as engine:
        with pytest.raises(ServiceUnreachableError, match="did not answer"):
            await engine.branches("s")


@pytest.mark.anyio
async def test_an_answer_that_is_none_of_the_service_is_an_error():
    transport = httpx.MockTransport(lambda request: httpx.Response(418, text="<html>"))
    async with RemoteEngine("http://service", transport=transport) as engine:
        with pytest.raises(ServiceError, match="418"):
            await engine.branches("s")
