"""The settings in force and the health of a service over HTTP: each value with its source, and each fault with its fix."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx
import pytest

from jacquard import BudgetConfig, RuntimeConfig
from jacquard.config.service import ProxySettings, ServiceSettings
from jacquard.service.running.application import build_app

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def serving(folder, config=None, **settings):
    app = build_app(ServiceSettings(store=str(folder / "store"), embedder="none", **settings), config)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
    ):
        yield client


async def test_each_setting_is_listed_with_its_value_and_its_source(tmp_path, monkeypatch):
    monkeypatch.setenv("JACQUARD_LAYOUT", "cache_first")
    config = RuntimeConfig(layout="cache_first", budget=BudgetConfig(max_input_tokens=4_321))
    async with serving(tmp_path, config, proxy=ProxySettings(key="sk-of-the-server")) as client:
        given = await client.get("/settings")
        known = {each["name"]: (each["value"], each["source"]) for each in given.json()}
        assert known["layout"] == ("cache_first", "JACQUARD_LAYOUT")
        assert known["budget.max_input_tokens"] == (4_321, "start")
        assert known["curation.enabled"] == (True, "default")
        assert known["service.embedder"] == ("none", "start")
        assert known["service.proxy.key"] == ("***", "start")
        assert "sk-of-the-server" not in given.text


async def test_the_health_of_a_store_is_told_with_what_to_do(tmp_path):
    async with serving(tmp_path) as client:
        await client.post("/sessions", json={"session_id": "s"})
        told = (await client.get("/health")).json()
        assert (told["kind"], told["is_well"]) == ("sqlite", True)
        assert all(each["severity"] == "stale" and each["what"] and each["do"] for each in told["findings"])
        assert told["packages"]["msgspec"]
