"""Endpoint of MCP over HTTP, which loads the official SDK with the first request.

The SDK takes as long to load as all other modules of a service, and many services get no request of MCP.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus
from starlette.types import ASGIApp, Receive, Scope, Send

from jacquard.config.service import ServiceSettings
from jacquard.service.access.principals import note_of
from jacquard.service.access.records import ServiceRecords
from jacquard.service.tenants import TenantRuntimes


class McpEndpoint:
    """ASGI application that answers requests of MCP while `run` is open."""

    def __init__(self, settings: ServiceSettings, tenants: TenantRuntimes, records: ServiceRecords | None) -> None:
        self._settings, self._tenants, self._records = settings, tenants, records
        self._loading = anyio.Lock()
        self._endpoint: ASGIApp | None = None
        self._tasks: TaskGroup | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        async with self._loading:
            endpoint = self._endpoint or await self._load()
        await endpoint(scope, receive, send)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Answer requests while the block runs."""
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    async def _load(self) -> ASGIApp:
        if self._tasks is None:
            raise RuntimeError("The endpoint of MCP does not run.")
        endpoint, manager = await to_thread.run_sync(self._make)
        await self._tasks.start(_keep_running, manager)
        self._endpoint = endpoint
        return endpoint

    def _make(self) -> tuple[ASGIApp, Any]:
        from jacquard.service.mcp.calls import Service
        from jacquard.service.mcp.server import build_server, make_http

        service = Service(tenants=self._tenants, records=self._records)
        return make_http(build_server(service, lambda context: note_of(context.request)), self._settings)


async def _keep_running(manager: Any, *, task_status: TaskStatus[None]) -> None:
    async with manager.run():
        task_status.started()
        await anyio.sleep_forever()
