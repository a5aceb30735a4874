"""The settings in force and the health of a service over HTTP: each value with its source, and each fault with its fix."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx
import pytest
from anyio import to_thread

from jacquard import BudgetConfig, RuntimeConfig
from jacquard.config.service import ProxySettings, ServiceSettings, load_settings
from jacquard.config.tenant_sections import TenantSettings
from jacquard.service.access.records import using_records
from jacquard.service.history import MOST_MINUTES, ServiceHistory, TenantHistory
from jacquard.service.running.application import build_app
from jacquard.service.values import Scope

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def serving(folder, config=None, **settings):
    app = build_app(ServiceSettings(store=str(folder / "store"), embedder="none", **settings), config)
    async with using(app) as client:
        yield client


@asynccontextmanager
async def using(app):
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


async def test_a_setting_of_the_file_is_listed_with_its_line(tmp_path):
    file = tmp_path / "settings.yaml"
    await to_thread.run_sync(file.write_text, "curation:\n  enabled: false\nlayout: cache_first\n")
    service, turns = await to_thread.run_sync(
        load_settings, file, {}, {"store": str(tmp_path / "store"), "embedder": "none"}
    )
    async with using(build_app(service, turns, settings_file=file)) as client:
        known = {each["name"]: (each["value"], each["source"]) for each in (await client.get("/settings")).json()}
        assert known["curation.enabled"] == (False, f"{file}:2")
        assert known["layout"] == ("cache_first", f"{file}:3")
        assert known["service.embedder"] == ("none", "start")
        await to_thread.run_sync(file.write_text, "curation: [")
        known = {each["name"]: (each["value"], each["source"]) for each in (await client.get("/settings")).json()}
        assert known["layout"] == ("cache_first", "start")


async def test_a_tenant_sees_its_own_settings_and_findings_without_places_of_the_host(tmp_path):
    store = str(tmp_path / "store")
    async with using_records(store) as records:
        token = (await records.tokens.create("ana", Scope.ADMIN))[0]
        player = (await records.tokens.create("ana", Scope.PLAY))[0]
    proxy = ProxySettings(key="sk-of-the-server")
    own = {"ana": TenantSettings(sessions=7)}
    async with serving(
        tmp_path, RuntimeConfig(layout="cache_first"), tenants=True, by_tenant=own, proxy=proxy
    ) as client:
        client.headers["authorization"] = f"Bearer {token}"
        assert (await client.post("/sessions", json={"session_id": "s"})).status_code == 201
        given = await client.get("/settings")
        known = {each["name"]: (each["value"], each["source"]) for each in given.json()}
        assert known["layout"] == ("cache_first", "start")
        assert known["service.each_tenant.sessions"] == (7, "start")
        assert not [name for name in known if name.startswith("service.") and "each_tenant" not in name]
        health = await client.get("/health")
        assert (health.json()["kind"], health.json()["is_well"], health.json()["packages"]) == ("sqlite", True, {})
        assert [name for name in (str(tmp_path), "sk-of-the-server") if name in given.text + health.text] == []
        client.headers["authorization"] = f"Bearer {player}"
        for path in ("/settings", "/health", "/metrics", "/users"):
            assert (await client.get(path)).status_code == 403


async def test_metrics_count_the_turns_and_requests_of_the_callers_tenant_alone(tmp_path):
    tokens = {}
    async with using_records(str(tmp_path / "store")) as records:
        for name in ("ana", "bo"):
            tokens[name] = (await records.tokens.create(name, Scope.ADMIN))[0]
    async with serving(tmp_path, tenants=True) as client:
        client.headers["authorization"] = f"Bearer {tokens['ana']}"
        await client.post("/sessions", json={"session_id": "s"})
        await client.post("/sessions/s/turns", json={"message": "Hello."})
        assert (await client.get("/sessions/none")).status_code == 404
        told = (await client.get("/metrics", params={"minutes": 120})).json()
        assert (len(told["points"]), told["point_minutes"]) == (60, 2)
        total = told["total"]
        assert (total["turns"], total["requests"], total["refused"]) == (1, 3, 1)
        assert sum(each["turns"] for each in told["points"]) == 1
        assert sum(total["paths"].values()) == 1
        assert 0 < total["steps"]["total"]["p50_ms"] <= total["steps"]["total"]["p95_ms"]
        assert (await client.get("/metrics", params={"minutes": 0})).status_code == 400
        client.headers["authorization"] = f"Bearer {tokens['bo']}"
        assert (await client.get("/metrics")).json()["total"]["turns"] == 0


def test_a_history_forgets_what_is_old_and_grows_no_further():
    now = [0.0]
    history = TenantHistory(lambda: now[0])
    for minute in range(MOST_MINUTES + 50):
        now[0] = minute * 60.0
        history.count_request(200)
    assert history.summarize(MOST_MINUTES, 1).total.requests == MOST_MINUTES
    now[0] += 3_600.0
    assert history.summarize(60, 1).total.requests == 0
    many = ServiceHistory(3)
    for number in range(9):
        many.of(f"t{number}").count_request(200)
    assert many.of("t8").summarize(60, 1).total.requests >= 0
    assert many.of("t0").summarize(60, 1).total.requests == 0


async def test_users_are_listed_page_by_page(tmp_path):
    async with serving(tmp_path) as client:
        for name in ("bo", "ana", "cai"):
            await client.post(f"/users/{name}/facts", json={"facts": [{"text": "I like tea."}]})
        first = (await client.get("/users", params={"limit": 2})).json()
        assert ([each["user_id"] for each in first["items"]], first["next"]) == (["ana", "bo"], "bo")
        assert first["items"][0]["sessions"] == 0
        rest = (await client.get("/users", params={"after": "bo"})).json()
        assert ([each["user_id"] for each in rest["items"]], rest["next"]) == (["cai"], None)
        assert [each["user_id"] for each in (await client.get("/users?query=an")).json()["items"]] == ["ana"]
        await client.post("/erasures", json={"user_id": "ana"})
        assert [each["user_id"] for each in (await client.get("/users")).json()["items"]] == ["bo", "cai"]
