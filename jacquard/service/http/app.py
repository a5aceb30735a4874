"""The application: its routes, and what is open while it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response

from jacquard.service.http import session_operations, turn_operations
from jacquard.service.http.endpoints import EncodedPaths, make_endpoint
from jacquard.service.http.operations import Operation
from jacquard.service.settings import ServiceSettings
from jacquard.service.tenants import TenantRuntimes

OPERATIONS: tuple[Operation, ...] = (*session_operations.OPERATIONS, *turn_operations.OPERATIONS)
"""All operations of the service."""


def build_app(settings: ServiceSettings) -> FastAPI:
    """Return the application of the service; what it opens is closed when the server ends its lifespan."""
    tenants = TenantRuntimes(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with tenants:
            yield

    app = FastAPI(
        title="Jacquard",
        version="1",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        middleware=[Middleware(EncodedPaths)],
    )
    app.state.tenants, app.state.settings = tenants, settings
    for operation in OPERATIONS:
        app.add_route(operation.path, make_endpoint(operation, tenants), [operation.method])

    async def healthz(_: object) -> Response:
        return JSONResponse({"status": "ok"})

    app.add_route("/healthz", healthz, ["GET"])
    app.add_route("/readyz", healthz, ["GET"])
    return app
