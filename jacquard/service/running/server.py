"""Runs the application under uvicorn."""

from __future__ import annotations

import uvicorn

from jacquard.config.sections import RuntimeConfig
from jacquard.core.errors import ConfigError
from jacquard.service.running.application import build_app
from jacquard.service.settings import ServiceSettings

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def serve(settings: ServiceSettings, engine: RuntimeConfig) -> None:
    """Serve until the process is told to end; requests that are under way are finished first.

    ConfigError for an address other than the loopback one without tenants.
    """
    if settings.host not in LOOPBACK and not settings.tenants:
        raise ConfigError(
            f"The service has no tenants, so it may only listen on the loopback address, not on {settings.host}. Set "
            "`tenants: true` and make tokens with `jacquard tokens create`, or leave --host out."
        )
    uvicorn.run(
        build_app(settings, engine), host=settings.host, port=settings.port, log_level="warning", access_log=False
    )
