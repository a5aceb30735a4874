"""The engine in this process and the engine of a service keep to the same contract."""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager

import httpx
import pytest

from jacquard import ContextEngine, RuntimeConfig, open_runtime
from jacquard.client import RemoteEngine, ServiceError, ServiceUnreachableError
from jacquard.service.running.application import build_app
from jacquard.service.settings import ServiceSettings
from jacquard.testing.engine import EngineContract

SETTINGS = RuntimeConfig(profile="assistant")
LOCAL_ONLY = {"settle", "parts", "config", "emitter", "worlds"}
"""What only an engine in the same process has."""


class TestLocalEngine(EngineContract):
    @asynccontextmanager
    async def open_engine(self, folder):
        async with open_runtime(folder / "store", embedder="none", config=SETTINGS) as runtime:
            yield runtime.engine


class TestRemoteEngine(EngineContract):
    @asynccontextmanager
    async def open_engine(self, folder):
        app = build_app(ServiceSettings(store=str(folder / "store"), embedder="none"), SETTINGS)
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            RemoteEngine("http://127.0.0.1", transport=transport) as engine,
        ):
            yield engine


def test_every_method_of_the_engine_is_there_with_its_parameters():
    methods = {
        name: each
        for name, each in vars(ContextEngine).items()
        if not name.startswith("_") and (inspect.isfunction(each) or isinstance(each, property))
    }
    assert {name for name in methods if not hasattr(RemoteEngine, name)} == LOCAL_ONLY
    for name, method in methods.items():
        if name in LOCAL_ONLY:
            continue
        expected = dict(inspect.signature(method).parameters)
        expected.pop("progress", None)
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
