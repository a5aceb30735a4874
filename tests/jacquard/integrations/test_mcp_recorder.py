"""Calls of tools of an MCP server are recorded as they are made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jacquard import create_context_engine
from jacquard.integrations.mcp import RecordedMcpClient
from mnemosyne import MemoryStore, SessionNotFoundError, ToolCallStatus

SESSION = "s1"


class Server:
    """A client that answers from a table."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def list_tools(self) -> list[str]:
        return ["forecast"]


def answer(text: str = "", *, is_error: bool = False, structure: Any = None) -> SimpleNamespace:
    content = [SimpleNamespace(type="text", text=text)] if text else []
    return SimpleNamespace(content=content, is_error=is_error, structured_content=structure)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("given", "status", "text"),
    [
        (answer("-3 °C & <snow>"), "success", "-3 °C & <snow>"),
        (answer("no such city", is_error=True), "error", "no such city"),
        (answer(structure={"degrees": -3}), "success", '{"degrees": -3}'),
        (TimeoutError("no answer"), "timeout", "no answer"),
    ],
)
async def test_a_call_is_recorded_with_its_end(given: Any, status: str, text: str) -> None:
    store = MemoryStore()
    async with create_context_engine(store) as engine:
        await engine.prepare_turn(SESSION, "Weather?")
        client = RecordedMcpClient(engine, SESSION, Server(given), name="weather", uri="mcp://weather")
        if isinstance(given, Exception):
            with pytest.raises(TimeoutError):
                await client.call_tool("forecast", {"city": "Oslo"})
        else:
            assert await client.call_tool("forecast", {"city": "Oslo"}) is given
        document = await store.get_session(SESSION)
        assert document is not None
        (call,) = document.session.tool_state.tool_calls
        evidences = await store.list_evidences(SESSION)
    assert (call.tool, call.status, call.args_digest["city"]) == ("forecast", ToolCallStatus(status), "Oslo")
    assert call.provider is not None
    assert (call.provider.kind.value, call.provider.name, call.provider.uri) == ("mcp", "weather", "mcp://weather")
    assert [each.content for each in evidences] == [text]
    assert evidences[0].links.tool_call_id == call.tool_call_id
    assert client.report.tool_calls == 1


@pytest.mark.anyio
async def test_the_rest_of_the_client_is_its_own() -> None:
    async with create_context_engine(MemoryStore()) as engine:
        assert await RecordedMcpClient(engine, SESSION, Server(answer())).list_tools() == ["forecast"]


@pytest.mark.anyio
async def test_a_call_that_cannot_be_recorded_goes_on_or_not() -> None:
    async with create_context_engine(MemoryStore()) as engine:
        client = RecordedMcpClient(engine, "nobody", Server(answer("x")))
        assert (await client.call_tool("forecast")).content[0].text == "x"
        assert "SessionNotFoundError" in client.report.problems[0].detail
        strict = RecordedMcpClient(engine, "nobody", Server(answer("x")), failure="closed")
        with pytest.raises(SessionNotFoundError):
            await strict.call_tool("forecast")
