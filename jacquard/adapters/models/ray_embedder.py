"""Embeds documents on workers of Ray, on this machine or in a running cluster.

Ray schedules the calls, restarts workers that die, and repeats their calls. Only this file imports ray, when an
embedder is first used. Ray's telemetry and dashboard are off.
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
from mnemosyne.protocols import Embedder, Vectors, is_cold

OpenEmbedder = Callable[[], Embedder | None]
"""Function that opens an embedder on a worker. It must be possible to pickle the function."""

_CALLS_PER_WORKER = 2
"""Concurrent calls per worker. With two calls, the next call is already waiting when a worker finishes a call."""

_MOST_LANES = 64
_RETRIES = 20
_REACH_SECONDS = 10.0
_STORE_BYTES = 200 * 1024 * 1024


class RayEmbedder:
    """An `Embedder` that embeds documents on workers of Ray. Queries and fitness are computed by `inner` in this process.

    The documents of one call of `embed` are embedded by one worker, so the vectors are the same as without Ray.

    Args:
        inner: embedder of this process.
        opening: opens the same embedder as `inner` on a worker. It is sent to the workers as a pickle.
        workers: number of workers (None: one per processor of this machine). Without `address`, Ray starts this many
            workers on this machine. With `address`, this many workers of the cluster get work at the same time.
        address: address of a running cluster, as for `ray.init` (None: only this machine).
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
        """Number of concurrent calls of `embed` that keep all workers busy."""
        return min(_MOST_LANES, _CALLS_PER_WORKER * self._workers)

    @property
    def is_cold(self) -> bool:
        """True if the model that embeds queries in this process is not loaded yet."""
        return is_cold(self._inner)

    async def warm(self) -> None:
        """Start Ray, or connect to the cluster. The workers load the model at their first call.

        Raises EmbedderUnavailableError if Ray cannot be started or reached.
        """
        async with self._starting:
            if self._ray is None:
                await to_thread.run_sync(self.start)

    async def fitness(self, text: str) -> float:
        """Return the share of `text` that the model knows, from 0 to 1."""
        return await self._inner.fitness(text)

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return unit vectors as float32, of the shape (len(texts), dimensions).

        Raises EmbedderUnavailableError if a worker cannot load the model, or if workers keep dying.
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
        """Do the same as `warm`, but block until it is done. Ray starts processes, so call this before other packages start
        threads.

        Raises EmbedderUnavailableError if Ray is not installed, or cannot be started or reached.
        """
        try:
            ray = import_silently("ray")
        except ImportError as error:
            raise EmbedderUnavailableError(explain_missing_package("This engine", "ray", "ray", error)) from error
        alone = {
            # Without it Ray joins the cluster named by its folder for temporary files, whatever it is.
            "address": "local",
            "num_cpus": self._workers,
            "include_dashboard": False,
            "object_store_memory": _STORE_BYTES,
            "_node_ip_address": "127.0.0.1",
        }
        # Its start messages are for people who run a cluster.
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
        # Results are in Ray's shared memory and must not stay there.
        return np.array(made, dtype=np.float32)


def _check_address(address: str | None) -> None:
    """Raise OSError if nothing answers at an address HOST:PORT, because Ray itself would try for many minutes."""
    host, _, port = (address or "").rpartition(":")
    if host and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), _REACH_SECONDS).close()


_opened: dict[str, tuple[Embedder, AbstractContextManager[BlockingPortal], BlockingPortal]] = {}
"""Embedder of this worker, with the event loop that it uses until the worker ends."""


def embed_documents(opening: OpenEmbedder, name: str, texts: Sequence[str]) -> Vectors:
    """Return the vectors of documents. This function runs on a worker, and its first call there loads the model.

    Raises EmbedderUnavailableError if `opening` opens another model than `name`.
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
