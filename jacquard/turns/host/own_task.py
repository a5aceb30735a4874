"""Keeps an engine open in a task of its own, for hosts that do not use `async with`.

A task group belongs to the task that entered it. A host may call the engine from several tasks, and any of them may end
before the others. Therefore the task group of the engine is entered in a further task, which ends with `close` or with
the event loop.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, suppress

import anyio

from jacquard.core.errors import ConfigError


class OwnTask:
    """Enters a context in a task of its own, and leaves the context in the same task. One object serves one event loop."""

    def __init__(self, context: AbstractAsyncContextManager[object]) -> None:
        self._context = context
        self._entered, self._left = anyio.Event(), anyio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """True while the context is open, that is, after `start` and before `close` or the end of the task."""
        return self._task is not None and not self._task.done()

    async def start(self) -> None:
        """Enter the context in a new task.

        Raises ConfigError if the event loop does not belong to asyncio, because other loops have no tasks without a
        parent.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise ConfigError("On this event loop the engine has to be opened: `async with engine:`.") from None
        self._task = loop.create_task(self._hold())
        await self._entered.wait()

    async def close(self) -> None:
        """Leave the context. Work that still runs in it is cancelled."""
        task, self._task = self._task, None
        if task is not None:
            self._left.set()
            with suppress(asyncio.CancelledError):
                await task

    async def _hold(self) -> None:
        async with self._context:
            self._entered.set()
            await self._left.wait()
