"""The recorder of MCP calls against a server and a client of the `mcp` package."""

from __future__ import annotations

import pytest

pytest.importorskip("mcp.server.mcpserver", reason="mcp 2 is not installed here: make test-frameworks")

import mcp
from mcp.server.mcpserver import MCPServer

from jacquard import create_context_engine
from jacquard.integrations.mcp import RecordedMcpClient
from mnemosyne import MemoryStore


@pytest.mark.anyio
async def test_calls_of_a_real_server_are_recorded():
    weather = MCPServer("weather")

    @weather.tool()
    def forecast(city: str) -> str:
        """Return the weather of a city."""
        if city != "Oslo":
            raise ValueError("no such city")
        return "-3 °C & <snow>"

    store = MemoryStore()
    async with create_context_engine(store) as engine, mcp.Client(weather) as client:
        await engine.prepare_turn("s1", "Weather?")
        recorded = RecordedMcpClient(engine, "s1", client, uri="mcp://weather")
        await recorded.call_tool("forecast", {"city": "Oslo"})
        await recorded.call_tool("forecast", {"city": "Rome"})
        document = await store.get_session("s1")
        evidences = await store.list_evidences("s1")
    assert [call.status.value for call in document.session.tool_state.tool_calls] == ["success", "error"]
    assert {(call.provider.kind.value, call.provider.name) for call in document.session.tool_state.tool_calls} == {
        ("mcp", "weather")
    }
    assert "-3 °C & <snow>" in [each.content for each in evidences]
    assert recorded.report.tool_calls == 2
