"""Embeds documents on the workers of Ray: on this machine, or on a cluster that is running.

Ray schedules the calls, starts workers anew that die, and repeats their calls; nothing of that is done here. Only this file
imports ray, when an embedder is first used. Its telemetry and its dashboard are off.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Literal

import numpy as np
from anyio import CapacityLimiter, Lock, to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.core.optional_packages import explain_missing_package, import_silently
from mnemosyne.protocols import Embedder, LoadingEmbedder, Vectors

OpenEmbedder = Callable[[], Embedder | None]
"""Opens an embedder on a worker, where it is pickled to."""

_CALLS_PER_WORKER = 2
"""A worker always finds another call waiting when it is done with one."""

_MOST_LANES = 64
_RETRIES = 20
_REACH_SECONDS = 10.0
_STORE_BYTES = 200 * 1024 * 1024


class RayEmbedder:
    """An `Embedder` whose documents are embedded by workers of Ray, each call as a whole by one of them: the vectors are those
    that the same call gives without Ray. Queries and fitness stay with `inner`.

    `opening` opens the same embedder on a worker. `workers`: how many there are on this machine, or how many of a cluster are kept
    busy (None: as many as there are processors). `address`: of a cluster, as `ray.init` takes it (None: this machine alone).
    """

    def __init__(
        self, inner: Embedder, opening: OpenEmbedder, *, workers: int | None = None, address: str | None = None
    ) -> None:
        self.name = inner.name
        self._inner, self._opening = inner, opening
        self._workers = workers or (os.cpu_count() or 1)
        self._address = address
        self._ray: Any = None
        self._call: Any = None
        self._starting = Lock()
        self._threads = CapacityLimiter(self.lanes)

    @property
    def lanes(self) -> int:
        """How many calls of `embed` are worth making at a time."""
        return min(_MOST_LANES, _CALLS_PER_WORKER * self._workers)

    @property
    def is_cold(self) -> bool:
        """Whether the model that embeds queries was not loaded yet; it is loaded in this process."""
        return isinstance(self._inner, LoadingEmbedder) and self._inner.is_cold

    async def warm(self) -> None:
        """Start Ray, or reach the cluster; EmbedderUnavailableError when that fails. Workers load the model at their first call."""
        async with self._starting:
            if self._ray is None:
                await to_thread.run_sync(self.start)

    async def fitness(self, text: str) -> float:
        """Return the share of `text` that the model knows, 0..1."""
        return await self._inner.fitness(text)

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return unit vectors of shape (len(texts), dimensions), float32; EmbedderUnavailableError where the model is not available
        to a worker, or workers die again and again.
        """
        if purpose == "query":
            return await self._inner.embed(texts, purpose)
        await self.warm()
        return await to_thread.run_sync(self._embed, list(texts), limiter=self._threads, abandon_on_cancel=True)

    async def close(self) -> None:
        """End the workers on this machine, or leave the cluster."""
        async with self._starting:
            if self._ray is not None:
                await to_thread.run_sync(self._ray.shutdown)
                self._ray = None

    def start(self) -> None:
        """Do what `warm` does. Blocks. It starts processes, which is best done before other packages have started threads.
        EmbedderUnavailableError as from `warm`.
        """
        try:
            ray = import_silently("ray")
        except ImportError as error:
            raise EmbedderUnavailableError(explain_missing_package("This engine", "ray", "ray", error)) from error
        alone = {
            # Without it Ray joins whatever cluster its folder for temporary files names.
            "address": "local",
            "num_cpus": self._workers,
            "include_dashboard": False,
            "object_store_memory": _STORE_BYTES,
            "_node_ip_address": "127.0.0.1",
        }
        # What it says of its start is for those who run a cluster.
        logging.getLogger("ray").setLevel(logging.ERROR)
        try:
            _check_address(self._address)
            ray.init(
                **(alone if self._address is None else {"address": self._address}),
                log_to_driver=False,
                configure_logging=False,
            )
        except Exception as error:
            said = " ".join(str(error).split())[:300] or type(error).__name__
            advice = "" if self._address is None else " A cluster that asks for a token needs RAY_AUTH_MODE=token here."
            raise EmbedderUnavailableError(f"Ray cannot be started or reached: {said.rstrip('.')}.{advice}") from error
        self._call = ray.remote(num_cpus=1, max_retries=_RETRIES)(embed_documents)
        self._ray = ray

    def _embed(self, texts: list[str]) -> Vectors:
        try:
            made = self._ray.get(self._call.remote(self._opening, self.name, texts))
        except EmbedderUnavailableError as error:
            raise EmbedderUnavailableError(str(getattr(error, "cause", error))) from None
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            said = " ".join(str(cause or error).split())[:300] or type(cause or error).__name__
            raise EmbedderUnavailableError(f"Ray's workers could not embed: {said}") from error
        # What Ray returns lies in its memory, and is not to be held there.
        return np.array(made, dtype=np.float32)


def _check_address(address: str | None) -> None:
    """Raise OSError where nothing answers at an address HOST:PORT; Ray itself would try for many minutes."""
    host, _, port = (address or "").rpartition(":")
    if host and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), _REACH_SECONDS).close()


_opened: dict[str, tuple[Embedder, AbstractContextManager[BlockingPortal], BlockingPortal]] = {}
"""The embedder of this worker, with the event loop on which it is used until the worker ends."""


def embed_documents(opening: OpenEmbedder, name: str, texts: Sequence[str]) -> Vectors:
    """Return the vectors of documents, on a worker; its model is loaded by the first call. EmbedderUnavailableError where it is not
    the one that was asked for.
    """
    if name not in _opened:
        embedder = opening()
        if embedder is None or embedder.name != name:
            found = "none" if embedder is None else repr(embedder.name)
            raise EmbedderUnavailableError(
                f"The embedding model {name!r} is not the one that a worker finds there ({found}): install the same packages on "
                "all machines of the cluster."
            )
        running = start_blocking_portal()
        _opened[name] = (embedder, running, running.__enter__())
    embedder, _, portal = _opened[name]
    return portal.call(partial(embedder.embed, texts, "document"))
