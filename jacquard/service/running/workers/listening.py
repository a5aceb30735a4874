"""Answers requests that other processes of the service forward to this process. The server that answers clients runs at
the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from jacquard.service.running.workers.forwarding import KEEP_SECONDS, ForwardedRequests
from jacquard.service.running.workers.places import WorkerPlaces


@asynccontextmanager
async def listen_for_workers(app: ASGIApp, places: WorkerPlaces, shutdown_seconds: float) -> AsyncIterator[None]:
    """Answer forwarded requests at this process's place during the block. After the block, running requests may finish
    within `shutdown_seconds`.
    """
    state = ServerState()
    config = uvicorn.Config(
        ForwardedRequests(app),
        http=find_protocol(),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=round(2 * KEEP_SECONDS),
    )
    config.load()
    made: Callable[..., asyncio.Protocol] = find_protocol()

    def connect() -> asyncio.Protocol:
        return made(config=config, server_state=state, app_state={})

    async with places.listen(connect):
        yield
    for connection in list(state.connections):
        connection.shutdown()
    if state.tasks:
        await asyncio.wait(state.tasks, timeout=shutdown_seconds)


def find_protocol() -> type[asyncio.Protocol]:
    """Return the class that parses HTTP. It is our class with its limits, or a class of uvicorn if httptools is not
    installed (as on Windows).
    """
    try:
        from jacquard.service.running.protocol import LimitedProtocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol

        return H11Protocol
    return LimitedProtocol
