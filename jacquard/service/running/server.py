"""Runs the application under uvicorn, in one process or in several that share one socket."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette
from uvicorn.supervisors import Multiprocess

from jacquard.config.sections import RuntimeConfig
from jacquard.config.service import ServiceSettings, load_settings
from jacquard.core.errors import ConfigError
from jacquard.service.access.origins import LOOPBACK_HOSTS
from jacquard.service.proxy.requests.rules import load_rules
from jacquard.service.proxy.upstreams.http import HttpUpstream
from jacquard.service.proxy.upstreams.opening import ask_upstream, find_address, show_upstream
from jacquard.service.running.application import OpenPages, build_app
from jacquard.service.running.logs import configure_logs, log_start, log_upstream
from jacquard.service.running.metrics import SHARED_FOLDER
from jacquard.service.running.workers.listening import find_protocol
from jacquard.service.running.workers.places import WorkerPlaces, can_share
from jacquard.service.tenants import TenantRuntimes
from mnemosyne.schema.memory import EMPTY
from mnemosyne.stores.locate import locate_store

_NO_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
WORKER_SECONDS = 60
"""Seconds without a sign of life after which a worker process is killed and replaced. On a busy machine, a healthy
process may be silent for a while.
"""


def serve(
    file: Path | None = None,
    options: Mapping[str, Any] = EMPTY,
    *,
    open_pages: OpenPages | None = None,
    opens_browser: bool = False,
) -> None:
    """Serve until the process is asked to end. Running requests are then finished, for at most
    `limits.shutdown_seconds`.

    `file` and `options` are the arguments of `load_settings`. Each process reads the settings again. `open_pages` is
    the argument of `build_app`. If `opens_browser` is true, a browser opens the address of the service.

    Raises:
        ConfigError: a setting is invalid, with every fault named; the service has no tenants and would listen on another address
            than loopback; this process cannot listen on the address; several processes would share a store in memory; or the file
            of rules cannot be read.
        StoreUnavailableError: the store cannot be used.
        WorldPackError: the world cannot be used.
    """
    settings, engine = load_settings(file, options=options)
    if settings.host not in LOOPBACK_HOSTS and not settings.tenants:
        raise ConfigError(
            f"The service has no tenants, so it may only listen on the loopback address, not on {settings.host}. Make tokens with "
            "`jacquard operate tokens create` and start it with --tenants, or leave --host out."
        )
    if settings.workers > 1 and settings.store.startswith("memory:"):
        raise ConfigError("Several workers cannot share a store in memory; name another store, or leave --workers out.")
    # Read here too, so that a fault is reported before anything starts.
    load_rules(settings.proxy.rules)
    if settings.upstream is not None and (address := find_address(settings.upstream)) is not None:
        HttpUpstream(address)
    with _listen(settings.host, settings.port) as sockets:
        anyio.run(_check_store, settings, engine)
        configure_logs()
        log_start(settings.host, settings.port, settings.workers, locate_store(settings.store).shown)
        if opens_browser:
            # The sockets listen already: the browser waits until the first request can be answered.
            address = f"http://{settings.host}:{settings.port}/"
            threading.Thread(target=webbrowser.open, args=(address,), name="jacquard-browser", daemon=True).start()
        threading.Thread(target=_ask_upstream, args=(settings,), name="jacquard-upstream", daemon=True).start()
        build = partial(build_served, file, dict(options), open_pages=open_pages)
        if settings.workers == 1:
            uvicorn.Server(_configure(settings, build)).run(sockets)
            return
        with tempfile.TemporaryDirectory(prefix="jacquard-workers-") as folder:
            os.environ[SHARED_FOLDER] = folder
            config = _configure(settings, partial(build, folder=folder if can_share(folder) else None))
            Multiprocess(config, sockets=sockets).run()


@contextmanager
def _listen(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Yield sockets that listen on all addresses of a host; raises ConfigError if this process may not listen on any.

    They listen before anything else is done, so that no other process can take the port meanwhile.
    """
    sockets: list[socket.socket] = []
    faults: list[OSError] = []
    with ExitStack() as stack:
        try:
            for family, *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                try:
                    sockets.append(stack.enter_context(_bind(family, address)))
                except OSError as error:
                    faults.append(error)
        except socket.gaierror as error:
            faults.append(error)
        # `localhost` may have an address that this machine does not have, in addition to one that it has.
        if not sockets or any(each.errno not in _NO_ADDRESS for each in faults):
            raise ConfigError(_explain_refusal(faults[-1], host, port)) from faults[-1]
        yield sockets


def _bind(family: int, address: Any) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen()
    except OSError:
        made.close()
        raise
    return made


def _explain_refusal(error: OSError, host: str, port: int) -> str:
    if isinstance(error, socket.gaierror) or error.errno in _NO_ADDRESS:
        return f"This machine has no address {host!r}, so nobody can call the service there; choose another --host."
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is in use by another process; end that one, or choose another --port."
    if error.errno == errno.EACCES:
        return f"This user may not listen on port {port} of {host}; choose a --port from 1024 on."
    return f"Nobody can listen on port {port} of {host} ({error.strerror or error}); choose another --host or --port."


def _ask_upstream(settings: ServiceSettings) -> None:
    """Log once whether the model server is reachable; calls are passed on in any case."""
    if settings.upstream is not None:
        log_upstream(show_upstream(settings), anyio.run(ask_upstream, settings))


async def _check_store(settings: ServiceSettings, engine: RuntimeConfig) -> None:
    """Open the parts that the first request would open, so that a fault is reported at once."""
    async with TenantRuntimes(settings, engine) as tenants:
        await tenants.check()


def build_served(
    file: Path | None, options: Mapping[str, Any], folder: str | None = None, open_pages: OpenPages | None = None
) -> Starlette:
    """Return the application for the calling process, which may be one of several.

    `file` and `options` are the arguments of `load_settings`, and `open_pages` is that of `build_app`. `folder` is the
    folder through which several processes find each other (None: they do not find each other). Raises ConfigError if a
    setting is invalid.
    """
    configure_logs()
    _end_with_parent()
    settings, engine = load_settings(file, options=options)
    places = None if folder is None else WorkerPlaces(Path(folder), settings.workers)
    return build_app(settings, engine, is_served=True, places=places, open_pages=open_pages, settings_file=file)


def _configure(settings: ServiceSettings, build: Callable[[], Starlette]) -> uvicorn.Config:
    return uvicorn.Config(
        build,
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
    """End this process when its parent is killed: it would hold the port, and nobody would supervise it."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="end with parent", daemon=True).start()
