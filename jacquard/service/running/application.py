"""The application: everything that the service answers, behind its gate, and what is open while it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jacquard.client.wire import ErrorBody
from jacquard.config.sections import RuntimeConfig
from jacquard.service.access.admission import Admission
from jacquard.service.access.gate import Gate, Observe, RequestNote
from jacquard.service.access.tokens import TokenRegistry, open_registry
from jacquard.service.answers import answer_fault
from jacquard.service.http.endpoints import EncodedPaths
from jacquard.service.http.routes import API_VERSION, answer_http_fault, make_routes
from jacquard.service.settings import ServiceSettings
from jacquard.service.tenants import TenantRuntimes
from jacquard.service.values import Principal


def build_app(
    settings: ServiceSettings, engine: RuntimeConfig | None = None, observe: tuple[Observe, ...] = ()
) -> FastAPI:
    """Return the application of the service.

    `engine` are the settings of turns; each of `observe` is given every request at its end. What the application opens is closed
    when the server ends its lifespan.
    """
    tenants = TenantRuntimes(settings, engine or RuntimeConfig())
    admission = Admission(settings.limits)
    registry: TokenRegistry | None = None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        nonlocal registry
        async with AsyncExitStack() as stack:
            if settings.tenants:
                registry = await stack.enter_async_context(open_registry(settings.store))
            await stack.enter_async_context(tenants)
            yield

    async def find(token: str) -> Principal | None:
        assert registry is not None
        return await registry.find(token)

    def tell(note: RequestNote) -> None:
        for each in observe:
            each(note)

    gate = Middleware(
        Gate, settings=settings, admission=admission, find=find if settings.tenants else None, observe=tell
    )
    app = FastAPI(
        title="Jacquard",
        version=API_VERSION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        middleware=[gate, Middleware(EncodedPaths)],
    )
    app.router.routes.extend(make_routes(tenants))
    app.add_exception_handler(HTTPException, answer_http_fault)

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        try:
            await tenants.check()
        except Exception as error:
            sentence = f"The store cannot be used now ({type(error).__name__}); the log says more."
            return answer_fault(503, ErrorBody(code="not_ready", message=sentence))
        return JSONResponse({"status": "ready"})

    app.add_route("/healthz", healthz, ["GET"])
    app.add_route("/readyz", readyz, ["GET"])
    return app
