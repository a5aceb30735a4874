"""Keeps a context open in its own task, for hosts that use an engine without `async with`.

A task group belongs to the task that entered it. A host may call the engine from any task, and it is unknown which of them ends
last; so the engine's group lives in a task that ends with `close` or with the event loop.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, suppress

import anyio

from jacquard.core.errors import ConfigError


class OwnTask:
    """Enters a context in its own task and leaves it there. It serves one event loop."""

    def __init__(self, context: AbstractAsyncContextManager[object]) -> None:
        self._context = context
        self._entered, self._left = anyio.Event(), anyio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """True while the context is open; False once its event loop has ended."""
        return self._task is not None and not self._task.done()

    async def start(self) -> None:
        """Enter the context; raises ConfigError on an event loop other than asyncio's, because those have no tasks without a
        parent.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise ConfigError("On this event loop the engine has to be opened: `async with engine:`.") from None
        self._task = loop.create_task(self._hold())
        await self._entered.wait()

    async def close(self) -> None:
        """Leave the context; work running in it is cancelled."""
        task, self._task = self._task, None
        if task is not None:
            self._left.set()
            with suppress(asyncio.CancelledError):
                await task

    async def _hold(self) -> None:
        async with self._context:
            self._entered.set()
            await self._left.wait()
