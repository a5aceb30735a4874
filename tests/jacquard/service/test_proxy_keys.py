"""Which key goes where: the client's to the model server, or a token of the service to the service alone."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from jacquard.cli.app import app as cli
from jacquard.config.service import ProxySettings, ServiceSettings
from jacquard.service.running.application import build_app
from jacquard.testing.server import ScriptedServer

pytestmark = pytest.mark.anyio
CLIENT_KEY, SERVER_KEY = "sk-the-clients-own-key", "sk-the-servers-own-key"
BODY = {"model": "m", "max_tokens": 200, "messages": [{"role": "user", "content": "My bees live behind the mill."}]}
PATHS = ["/v1/chat/completions", "/v1/messages"]


@pytest.fixture
def server():
    with ScriptedServer("text:Noted.") as server:
        yield server


@pytest.fixture
def token(tmp_path):
    result = CliRunner().invoke(
        cli, ["operate", "tokens", "create", "--tenant", "a", "--store", str(tmp_path / "store")]
    )
    assert result.exit_code == 0, result.output
    return result.stdout.split()[0]


async def call(tmp_path, server, path, headers, **settings):
    app = build_app(
        ServiceSettings(store=str(tmp_path / "store"), upstream=server.base_url, embedder="none", **settings)
    )
    transport = httpx.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http,
    ):
        return await http.post(path, json=BODY, headers=headers)


def stored_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


@pytest.mark.parametrize("path", PATHS)
async def test_without_tenants_the_clients_key_goes_upstream(tmp_path, server, path, caplog):
    caplog.set_level(logging.DEBUG)
    headers = {"Authorization": f"Bearer {CLIENT_KEY}", "x-api-key": CLIENT_KEY, "Cookie": "session=1"}
    answer = await call(tmp_path, server, path, headers, proxy=ProxySettings(key=SERVER_KEY))
    assert answer.status_code == 200
    assert "x-jacquard-receipt" in answer.headers
    sent = server.requests[0].headers
    assert (sent["authorization"], sent["x-api-key"]) == (f"Bearer {CLIENT_KEY}", CLIENT_KEY)
    assert "cookie" not in sent
    assert CLIENT_KEY.encode() not in stored_bytes(tmp_path)
    assert CLIENT_KEY not in caplog.text


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("header", ["Authorization", "x-api-key"])
async def test_with_tenants_the_token_stays_here_and_the_servers_key_goes_upstream(
    tmp_path, server, path, header, token, caplog
):
    caplog.set_level(logging.DEBUG)
    headers = {header: f"Bearer {token}" if header == "Authorization" else token, "api-key": CLIENT_KEY}
    answer = await call(tmp_path, server, path, headers, tenants=True, proxy=ProxySettings(key=SERVER_KEY))
    assert answer.status_code == 200
    assert "x-jacquard-receipt" in answer.headers
    sent = server.requests[0].headers
    assert token not in str(sent)
    assert CLIENT_KEY not in str(sent)
    assert SERVER_KEY in (sent["x-api-key"] if path == "/v1/messages" else sent["authorization"])
    assert SERVER_KEY not in str(answer.headers) + answer.text
    for secret in (token, SERVER_KEY, CLIENT_KEY):
        assert secret.encode() not in stored_bytes(tmp_path)
        assert secret not in caplog.text


async def test_with_tenants_and_without_a_token_nothing_goes_upstream(tmp_path, server, token):
    answer = await call(tmp_path, server, PATHS[0], {}, tenants=True, proxy=ProxySettings(key=SERVER_KEY))
    assert answer.status_code == 401
    assert server.requests == []


async def test_settings_never_show_the_key():
    assert SERVER_KEY not in repr(ServiceSettings(proxy=ProxySettings(key=SERVER_KEY)))
