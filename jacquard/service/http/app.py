"""The application: its routes, what is open while it runs, and how errors become answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from jacquard.service.settings import ServiceSettings
from jacquard.service.tenants import TenantRuntimes


def build_app(settings: ServiceSettings) -> FastAPI:
    """Return the application of the service; what it opens is closed when the server ends its lifespan."""
    tenants = TenantRuntimes(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with tenants:
            yield

    app = FastAPI(title="Jacquard", version="1", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.tenants, app.state.settings = tenants, settings
    return app
