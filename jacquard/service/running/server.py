"""Runs the application under uvicorn: one process, or several that share one socket."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from jacquard.config.sections import RuntimeConfig
from jacquard.config.service import ServiceSettings, load_service_settings
from jacquard.config.settings import load_config
from jacquard.core.errors import ConfigError
from jacquard.service.access.gate import LOOPBACK_HOSTS
from jacquard.service.proxy.requests.rules import load_rules
from jacquard.service.running.application import build_app
from jacquard.service.running.logs import configure_logs, log_start
from jacquard.service.running.metrics import SHARED_FOLDER
from jacquard.service.running.workers.listening import find_protocol
from jacquard.service.running.workers.places import WorkerPlaces, can_share
from jacquard.service.tenants import TenantRuntimes
from mnemosyne.schema.memory import EMPTY

WORKER_SECONDS = 60
"""A worker that gives no sign of life for so long is killed and replaced; on a busy machine a living one may take a while."""


def serve(file: Path | None = None, options: Mapping[str, Any] = EMPTY) -> None:
    """Serve until the process is asked to end; requests under way are then finished, for at most `limits.shutdown_seconds`.

    `file` and `options` are those of `load_service_settings`; each process reads them. ConfigError that lists every fault of
    theirs, for an address other than the loopback one without tenants, for several processes on a store in memory, and for a
    file of rules that cannot be read; StoreUnavailableError and WorldPackError where store and world cannot be used.
    """
    settings = load_service_settings(file, options=options)
    if settings.host not in LOOPBACK_HOSTS and not settings.tenants:
        raise ConfigError(
            f"The service has no tenants, so it may only listen on the loopback address, not on {settings.host}. Make tokens with "
            "`jacquard tokens create` and start it with --tenants, or leave --host out."
        )
    if settings.workers > 1 and settings.store.startswith("memory:"):
        raise ConfigError("Several workers cannot share a store in memory; name another store, or leave --workers out.")
    # Read here too, so that a fault in the file is said before anything starts.
    load_rules(settings.proxy.rules)
    anyio.run(_check_store, settings, load_config(file))
    configure_logs()
    log_start(settings.host, settings.port, settings.workers)
    if settings.workers == 1:
        uvicorn.Server(_configure(settings, file, options)).run()
        return
    with tempfile.TemporaryDirectory(prefix="jacquard-workers-") as folder:
        os.environ[SHARED_FOLDER] = folder
        config = _configure(settings, file, options, folder if can_share(folder) else None)
        socket = config.bind_socket()
        try:
            Multiprocess(config, sockets=[socket]).run()
        finally:
            socket.close()


async def _check_store(settings: ServiceSettings, engine: RuntimeConfig) -> None:
    """Open what the first request would open, so that a fault is said at once."""
    async with TenantRuntimes(settings, engine) as tenants:
        await tenants.check()


def build_served(file: Path | None, options: Mapping[str, Any], folder: str | None = None) -> FastAPI:
    """Return the application for the process that calls this, which may be one of several; ConfigError as of `serve`.

    `folder`: where several processes find each other.
    """
    configure_logs()
    _end_with_parent()
    settings = load_service_settings(file, options=options)
    places = None if folder is None else WorkerPlaces(Path(folder), settings.workers)
    return build_app(settings, load_config(file), is_served=True, places=places)


def _configure(
    settings: ServiceSettings, file: Path | None, options: Mapping[str, Any], folder: str | None = None
) -> uvicorn.Config:
    return uvicorn.Config(
        partial(build_served, file, dict(options), folder),
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        http=find_protocol(),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, round(settings.limits.shutdown_seconds)),
        timeout_worker_healthcheck=WORKER_SECONDS,
    )


def _end_with_parent() -> None:
    """End this process when the one that started it is killed: it would hold the port, and nobody would watch over it."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="end with parent", daemon=True).start()
