"""Runs async functions of an engine for callers on any thread, with or without an event loop.

An engine works on one event loop only. A `SyncEngine` of `jacquard.sync` has its own loop in a thread. A
`ContextEngine` works on the loop on which the bridge is made, or else on the loop of the first `run`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from jacquard import ConfigError, ContextEngine
from jacquard.sync import SyncEngine

T = TypeVar("T")


class EngineBridge:
    """Calls async functions on the event loop to which an engine belongs."""

    def __init__(self, engine: ContextEngine | SyncEngine) -> None:
        self._owns_loop = isinstance(engine, SyncEngine)
        self.engine: ContextEngine = engine.engine if isinstance(engine, SyncEngine) else engine
        self._loop = engine.run(_running_loop) if isinstance(engine, SyncEngine) else _find_running_loop()

    async def run(self, work: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Await `work(*args, **kwargs)` on the engine's event loop, without blocking the caller's loop. Return its
        result.

        Raises ConfigError if the engine is a closed `SyncEngine`.
        """
        running = asyncio.get_running_loop()
        if self._loop is None or not self._loop.is_running():
            if self._owns_loop:
                raise ConfigError(
                    "The engine of jacquard.sync was closed; keep it open as long as its adapters are used."
                )
            # An engine used without `async with` opens again on a new loop if its former one has ended.
            self._loop = running
        call = partial(work, *args, **kwargs)
        return await (call() if self._loop is running else asyncio.wrap_future(_submit(call, self._loop)))

    def run_blocking(self, work: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run `work(*args, **kwargs)` on the engine's event loop, block this thread until it ends, and return its
        result.

        Raises ConfigError if the engine's loop is not running, or if this thread runs the loop.
        """
        if self._loop is None or not self._loop.is_running():
            raise ConfigError(
                "The framework called a synchronous hook, and this engine has no running event loop. Use an engine of "
                "jacquard.sync (create_context_engine, open_engine), which has one of its own, and keep it open."
            )
        if _find_running_loop() is self._loop:
            raise ConfigError(
                "The framework called a synchronous hook on the engine's own event loop, which would wait for itself. Use an "
                "engine of jacquard.sync, or the framework's asynchronous calls."
            )
        return _submit(partial(work, *args, **kwargs), self._loop).result()

    def submit(self, work: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> Future[T]:
        """Start `work(*args, **kwargs)` on the engine's event loop and return its future at once.

        Raises ConfigError if the engine's loop is not running.
        """
        if self._loop is None or not self._loop.is_running():
            raise ConfigError("The engine's event loop is not running, so no work can be started on it.")
        return _submit(partial(work, *args, **kwargs), self._loop)


def _submit(call: Callable[[], Awaitable[T]], loop: asyncio.AbstractEventLoop) -> Future[T]:
    async def work() -> T:
        return await call()

    return asyncio.run_coroutine_threadsafe(work(), loop)


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def _find_running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
