"""The application: its routes, and what is open while it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from jacquard.client.wire import ErrorBody
from jacquard.service.http.endpoints import EncodedPaths, make_endpoint
from jacquard.service.http.errors import answer_fault
from jacquard.service.http.openapi import build_openapi
from jacquard.service.http.operation import Operation
from jacquard.service.http.operations import events, memory, records, sessions, tokens, turns
from jacquard.service.settings import ServiceSettings
from jacquard.service.tenants import TenantRuntimes
from mnemosyne.core import codec

OPERATIONS: tuple[Operation, ...] = (
    *sessions.OPERATIONS,
    *turns.OPERATIONS,
    *records.OPERATIONS,
    *memory.OPERATIONS,
    *tokens.OPERATIONS,
    *events.OPERATIONS,
)
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
        openapi_url=None,
        middleware=[Middleware(EncodedPaths)],
    )
    app.state.tenants, app.state.settings = tenants, settings
    for path, methods in _by_path(OPERATIONS).items():
        app.router.routes.append(_route(path, methods, tenants))
    described = codec.encode(build_openapi(OPERATIONS, app.version))

    async def openapi(_: object) -> Response:
        return Response(described, media_type="application/json")

    app.add_route("/openapi.json", openapi, ["GET"])
    app.add_exception_handler(HTTPException, answer_http_fault)

    async def healthz(_: object) -> Response:
        return JSONResponse({"status": "ok"})

    app.add_route("/healthz", healthz, ["GET"])
    app.add_route("/readyz", healthz, ["GET"])
    return app


def _by_path(operations: Sequence[Operation]) -> dict[str, dict[str, Operation]]:
    found: dict[str, dict[str, Operation]] = {}
    for each in operations:
        found.setdefault(each.path, {})[each.method] = each
    return found


def _route(path: str, methods: Mapping[str, Operation], tenants: TenantRuntimes) -> Route:
    endpoints = {method: make_endpoint(operation, tenants) for method, operation in methods.items()}

    async def endpoint(request: Request) -> Response:
        return await endpoints["GET" if request.method == "HEAD" else request.method](request)

    return Route(path, endpoint, methods=list(methods))


async def answer_http_fault(request: Request, error: Exception) -> Response:
    """Return an answer in the form of all errors for an address or a method that is not there."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    code = {404: "not_found", 405: "method_not_allowed"}.get(status, "http")
    sentence = {
        404: "There is nothing at this address; /openapi.json lists all of them.",
        405: f"{request.method} is not possible here; /openapi.json says what is.",
    }.get(status, "This request cannot be answered.")
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return answer_fault(status, ErrorBody(code=code, message=sentence), headers)
