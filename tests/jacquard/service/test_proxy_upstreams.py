"""The model server of the settings: what its address means, and whether it is there."""

from __future__ import annotations

import anyio
import pytest
from served import serve_app
from starlette.applications import Starlette

from jacquard import ConfigError
from jacquard.config.service import ProxySettings, ServiceSettings
from jacquard.service.proxy.upstreams.opening import ask_upstream, find_address
from jacquard.testing.server import ScriptedServer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("told", "address"),
    [
        ("http://127.0.0.1:5001/v1", "http://127.0.0.1:5001/v1"),
        ("https://openrouter.ai/api/v1/", "https://openrouter.ai/api/v1"),
        ("127.0.0.1:5901", "http://127.0.0.1:5901"),
        (" localhost:5001/v1 ", "http://localhost:5001/v1"),
        ("[::1]:5001", "http://[::1]:5001"),
        ("tower:8080/v1", "http://tower:8080/v1"),
        ("host.docker.internal:11434/v1", "http://host.docker.internal:11434/v1"),
        ("user:word@tower.lan:8080/v1", "http://user:word@tower.lan:8080/v1"),
        ("api.openai.com/v1", "https://api.openai.com/v1"),
        ("api.openai.com:443/v1/chat/completions", "https://api.openai.com:443/v1"),
        ("http://127.0.0.1:5001/v1/chat/completions", "http://127.0.0.1:5001/v1"),
        ("http://127.0.0.1:5001/v1/chat/completions/", "http://127.0.0.1:5001/v1"),
        ("https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1"),
        ("https://api.deepseek.com/chat/completions", "https://api.deepseek.com"),
        ("http://127.0.0.1:5001/v1/models", "http://127.0.0.1:5001/v1"),
        ("ollama/llama3.1:8b", None),
        ("gpt-3.5-turbo", None),
        ("gpt-4o", None),
        ("anthropic/claude-sonnet-4-5", None),
        ("bedrock/anthropic.claude-v2:1", None),
        ("anthropic.claude-v2:1", None),
        ("openrouter/meta-llama/llama-3.1:free", None),
    ],
)
def test_what_an_upstream_means(told, address):
    assert find_address(told) == address


@pytest.mark.parametrize("told", ["http://h/v1?key=1", "127.0.0.1:5001/v1#x"])
def test_an_address_with_more_than_a_base_url_is_refused(told):
    with pytest.raises(ConfigError, match="base URL only"):
        find_address(told)


def test_the_model_server_is_asked_once_whether_it_is_there():
    with ScriptedServer() as server:
        settings = ServiceSettings(
            upstream=server.base_url.removeprefix("http://"), proxy=ProxySettings(key="sk-server")
        )
        assert anyio.run(ask_upstream, settings) == ""
    assert "cannot be reached" in anyio.run(ask_upstream, settings)
    with serve_app(Starlette()) as port:
        found = anyio.run(ask_upstream, ServiceSettings(upstream=f"127.0.0.1:{port}"))
    assert "most base URLs end in /v1" in found
    assert anyio.run(ask_upstream, ServiceSettings()) == ""


async def test_a_name_of_a_model_without_a_provider_is_said():
    assert "write PROVIDER/MODEL" in await ask_upstream(ServiceSettings(upstream="no-such-model"))
    assert await ask_upstream(ServiceSettings(upstream="ollama/llama3.1")) == ""
