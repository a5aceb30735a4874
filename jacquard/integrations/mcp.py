"""Records an agent's calls to an MCP server: provider, arguments, status, duration and result.

    client = RecordedMcpClient(engine, "s1", client, name="weather", uri="mcp://weather")
    result = await client.call_tool("forecast", {"city": "Oslo"})

No package is needed. Any object can be recorded that has a method `call_tool` like the clients of the `mcp` package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any, Protocol
from uuid import uuid4

from jacquard import ContextEngine
from jacquard.integrations.core.mapping import find_status, read_arguments, read_text, write_result
from jacquard.integrations.core.reporting import ReportBook
from jacquard.integrations.core.values import AdapterReport, FailurePolicy
from mnemosyne import ProviderKind, ToolCall, ToolCallStatus, ToolProvider


class CallsTools(Protocol):
    """Client of an MCP server. Only its method `call_tool` is used."""

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
        """Call a tool and return its result, which has `content`, `structured_content` and `is_error`."""
        ...


class RecordedMcpClient:
    """Wraps a client of an MCP server and records the client's tool calls in a session. All other attributes are those
    of the client.

    `name` and `uri` describe the server (`name` empty: the name that the server states itself). If a call cannot be
    recorded, the failure policy decides. With `open`, the call still returns its result, and `report.problems` lists
    the problem. With `closed`, the error of the engine is raised.
    """

    def __init__(
        self,
        engine: ContextEngine,
        session_id: str,
        client: CallsTools,
        *,
        name: str = "",
        uri: str = "",
        failure: FailurePolicy | str = FailurePolicy.OPEN,
    ) -> None:
        self._engine, self._session_id, self._client = engine, session_id, client
        self._provider = ToolProvider(kind=ProviderKind.MCP, name=name, uri=uri)
        self._failure = FailurePolicy(failure)
        self._book = ReportBook("mcp", "")

    @property
    def report(self) -> AdapterReport:
        """Number of recorded calls, and the problems."""
        return self._book.report

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
        """Call a tool and return its result unchanged, or raise its error. Start and end of the call are recorded under
        one id.
        """
        call = ToolCall(
            tool_call_id=f"mcp-{uuid4().hex}",
            tool=name,
            provider=self._find_provider(),
            called_at=self._engine.parts.clock.now(),
            args_digest=read_arguments(arguments),
            status=ToolCallStatus.RUNNING,
        )
        await self._record(call, None)
        since = perf_counter()
        try:
            result = await self._client.call_tool(name, arguments, **options)
        except Exception as error:
            await self._end(call, since, find_status(error), str(error))
            raise
        status = ToolCallStatus.ERROR if _is_error(result) else ToolCallStatus.SUCCESS
        await self._end(call, since, status, _read_result(result))
        return result

    def _find_provider(self) -> ToolProvider:
        """Return the server; a client knows the server's own name only after it is connected."""
        if not self._provider.name:
            stated = getattr(getattr(self._client, "server_info", None), "name", None)
            self._provider = replace(self._provider, name=stated if isinstance(stated, str) else "")
        return self._provider

    async def _end(self, call: ToolCall, since: float, status: ToolCallStatus, text: str) -> None:
        ended = ToolCall(
            tool_call_id=call.tool_call_id,
            tool=call.tool,
            provider=call.provider,
            called_at=call.called_at,
            args_digest=call.args_digest,
            status=status,
            duration_ms=round((perf_counter() - since) * 1000),
        )
        if await self._record(ended, text or None):
            self._book.add(tool_calls=1)

    async def _record(self, call: ToolCall, result: str | None) -> bool:
        """Record a call; return whether that succeeded."""
        try:
            await self._engine.record_tool_call(self._session_id, call, result=result)
        except Exception as error:
            if self._failure is FailurePolicy.CLOSED:
                raise
            self._book.note("tool_call", self._session_id, "", f"{type(error).__name__}: {error}")
            return False
        return True


def _is_error(result: Any) -> bool:
    # Releases of the `mcp` package before 2 name it `isError`.
    return bool(getattr(result, "is_error", None) or getattr(result, "isError", None))


def _read_result(result: Any) -> str:
    """Return a result as text: its content, or its structured content as JSON."""
    structure = getattr(result, "structured_content", None)
    text = read_text(getattr(result, "content", None))
    if isinstance(structure, Mapping) and not text:
        return write_result(dict(structure)) or ""
    return text
