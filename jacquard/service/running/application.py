"""Builds the web application of the service: all endpoints behind the gate, and the resources that are open while it runs."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import field, replace
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import anyio
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from jacquard.config.sections import RuntimeConfig
from jacquard.config.service import ServiceSettings
from jacquard.service.access.admission import Admission
from jacquard.service.access.gate import Gate
from jacquard.service.access.principals import RequestNote, note_of
from jacquard.service.access.records import ServiceRecords, open_records
from jacquard.service.answers import Refusal
from jacquard.service.http.endpoints import EncodedPaths
from jacquard.service.http.routes import answer_http_fault, make_routes
from jacquard.service.mcp.endpoint import McpEndpoint
from jacquard.service.proxy.routes import Proxy
from jacquard.service.proxy.upstreams.opening import open_upstream
from jacquard.service.proxy.upstreams.protocol import Upstream
from jacquard.service.running.logs import log_request
from jacquard.service.running.metrics import ServiceMetrics
from jacquard.service.running.workers.forwarding import OwnerForwarder
from jacquard.service.running.workers.listening import listen_for_workers
from jacquard.service.running.workers.places import WorkerPlaces
from jacquard.service.tenants import TenantRuntimes
from jacquard.service.upkeep.housekeeper import Housekeeper
from jacquard.service.values import Scope
from jacquard.wiring.process_tuning import ProcessTuning
from mnemosyne.values import dataclass

SETTLED_SECONDS = 60.0
"""Seconds after the start at which a service has usually loaded its models."""
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ServicePages(NamedTuple):
    """Pages for people: their routes, and the middleware that lets browsers in."""

    middleware: Middleware
    routes: list[Route]


OpenPages = Callable[[TenantRuntimes, ServiceRecords | None], ServicePages]


def build_app(
    settings: ServiceSettings,
    engine: RuntimeConfig | None = None,
    *,
    is_served: bool = False,
    places: WorkerPlaces | None = None,
    open_pages: OpenPages | None = None,
    settings_file: Path | None = None,
) -> Starlette:
    """Return the web application. Its resources are closed when the server ends the application's lifespan.

    Args:
        settings: settings of the service.
        engine: settings of turns (None: the defaults).
        is_served: true if the application has a process of its own. Then it writes the log, loads models ahead, and
            ends event streams as soon as the process is asked to end.
        places: places of the service's processes (None: there is only one process, or the processes cannot reach each
            other).
        open_pages: makes the pages for people; it is called only if the setting `studio` is on.
        settings_file: the file from which the settings were read, for the list of settings (None: no file).
    """
    parts = _build_parts(settings, engine or RuntimeConfig(), is_served=is_served, places=places, file=settings_file)
    records, forwarder, mcp = parts.records, parts.forwarder, parts.mcp
    find = None if records is None else records.tokens.find
    pages = open_pages(parts.tenants, records) if open_pages is not None and settings.studio else None
    app = Starlette(
        lifespan=parts.open,
        middleware=[
            Middleware(EncodedPaths),
            *(() if pages is None else (pages.middleware,)),
            Middleware(
                Gate,
                settings=settings,
                admission=parts.admission,
                find=find,
                observe=parts.observe,
                ending=parts.streams,
                pass_on=None if forwarder is None else forwarder.pass_on,
            ),
        ],
    )
    app.router.routes.extend(make_routes(parts.tenants, records))
    if mcp is not None:
        app.router.routes.append(Route("/mcp", mcp, methods=["POST"]))
    app.router.routes.extend(parts.proxy.routes())
    if pages is not None:
        app.router.routes.extend(pages.routes)
    app.add_exception_handler(HTTPException, answer_http_fault)
    _add_probes(app, parts.tenants, parts.metrics)
    return app


@dataclass(frozen=True, kw_only=True, slots=True)
class _ServiceParts:
    """Parts of the application."""

    settings: ServiceSettings
    is_served: bool
    admission: Admission
    metrics: ServiceMetrics
    tenants: TenantRuntimes
    records: ServiceRecords | None
    mcp: McpEndpoint | None
    upstream: Upstream | None
    proxy: Proxy
    places: WorkerPlaces | None
    forwarder: OwnerForwarder | None
    streams: list[anyio.CancelScope] = field(default_factory=list)
    """Open event streams."""

    @asynccontextmanager
    async def open(self, app: Starlette) -> AsyncIterator[None]:
        """Keep the resources of requests open; they are closed in reverse order."""
        settings = self.settings
        async with AsyncExitStack() as stack:
            if self.records is not None:
                stack.push_async_callback(self.records.close)
            await stack.enter_async_context(self.tenants)
            if self.mcp is not None:
                await stack.enter_async_context(self.mcp.run())
            await self.proxy.open()
            if self.upstream is not None:
                stack.push_async_callback(self.upstream.close)
            if self.is_served:
                await stack.enter_async_context(_tuned_process())
                await stack.enter_async_context(_warming(self.tenants))
                stack.enter_context(_when_asked_to_end(self.streams))
            if settings.housekeeping.enabled:
                await stack.enter_async_context(_housekeeping(settings))
            if self.places is not None and self.forwarder is not None:
                stack.push_async_callback(self.forwarder.close)
                await stack.enter_async_context(listen_for_workers(app, self.places, settings.limits.shutdown_seconds))
            yield

    def observe(self, note: RequestNote) -> None:
        """Count an answered request, and write it to the log."""
        self.metrics.count_request(note)
        if note.operation and not note.is_passed_on:
            self.tenants.history.of(note.principal.tenant).count_request(note.status)
        if self.is_served and not note.is_passed_on:
            log_request(note)


def _build_parts(
    settings: ServiceSettings, engine: RuntimeConfig, *, is_served: bool, places: WorkerPlaces | None, file: Path | None
) -> _ServiceParts:
    admission = Admission(settings.limits, is_fair=settings.tenants)
    metrics = ServiceMetrics(admission)
    tenants = TenantRuntimes(settings, _without_metrics(engine), metrics.count_event, file)
    records = open_records(settings.store) if settings.tenants else None
    upstream = open_upstream(settings)
    return _ServiceParts(
        settings=settings,
        is_served=is_served,
        admission=admission,
        metrics=metrics,
        tenants=tenants,
        records=records,
        mcp=McpEndpoint(settings, tenants, records) if find_spec("mcp") else None,
        upstream=upstream,
        proxy=Proxy(settings, tenants, upstream),
        places=places,
        forwarder=None if places is None else OwnerForwarder(places),
    )


@asynccontextmanager
async def _tuned_process() -> AsyncIterator[None]:
    """Tune the process while the application runs, and once more after the first turns have loaded their parts."""
    tuning = ProcessTuning()

    async def tune_later() -> None:
        await anyio.sleep(SETTLED_SECONDS)
        await to_thread.run_sync(tuning.tune)

    await to_thread.run_sync(tuning.tune)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tune_later)
            yield
            tasks.cancel_scope.cancel()
    finally:
        tuning.release()


@asynccontextmanager
async def _warming(tenants: TenantRuntimes) -> AsyncIterator[None]:
    """Load the parts that first turns need while the application already runs."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tenants.warm)
        yield
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def _housekeeping(settings: ServiceSettings) -> AsyncIterator[None]:
    """Keep the store in order while the application runs."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Housekeeper(settings).run)
        yield
        tasks.cancel_scope.cancel()


def _add_probes(app: Starlette, tenants: TenantRuntimes, metrics: ServiceMetrics) -> None:
    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(request: Request) -> Response:
        try:
            await tenants.check()
        except Exception as error:
            note_of(request).error = error
            sentence = f"The store cannot be used now ({type(error).__name__}); the log says more."
            raise Refusal(503, "not_ready", sentence, {"retry-after": "1"}) from None
        return JSONResponse({"status": "ready"})

    async def exposition(request: Request) -> Response:
        if not note_of(request).principal.allows(Scope.ADMIN):
            raise Refusal(403, "forbidden", "This needs a token of scope admin.", scope="admin")
        return Response(await to_thread.run_sync(metrics.exposition), media_type=METRICS_TYPE)

    app.add_route("/healthz", healthz, ["GET"])
    app.add_route("/readyz", readyz, ["GET"])
    app.add_route("/metrics", exposition, ["GET"])


def _without_metrics(engine: RuntimeConfig) -> RuntimeConfig:
    """Return settings without metrics, because the service itself counts the events of all of its engines."""
    return replace(engine, observability=replace(engine.observability, metrics=False))


@contextmanager
def _when_asked_to_end(streams: list[anyio.CancelScope]) -> Iterator[None]:
    """End open streams at the signal to end; the server would otherwise wait for them as long as it may."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before: dict[int, Callable[[int, FrameType | None], Any]] = {}

    def end(number: int, frame: FrameType | None) -> None:
        for stream in tuple(streams):
            loop.call_soon_threadsafe(stream.cancel)
        before[number](number, frame)

    for asked in (signal.SIGTERM, signal.SIGINT):
        handler = signal.getsignal(asked)
        if callable(handler):
            before[asked] = handler
            signal.signal(asked, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
