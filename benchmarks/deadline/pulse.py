"""Lateness of an event loop's ticks, and the part of it that it waited for a core that other processes had.

A figure from a busy machine says little without the second number: it is taken from the scheduler, if the system
provides it.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio import to_thread

TICK_SECONDS = 0.005
_SCHEDULER = "/proc/thread-self/schedstat"


class Pulse:
    """Ticks on a loop: how late each tick was (`late_ms`), and how long its thread waited for a core (`queued_ms`)."""

    def __init__(self) -> None:
        self.late_ms: list[float] = []
        self.queued_ms: list[float] = []

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Tick as long as the block lasts."""
        account = _open_account()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._tick, account)
                try:
                    yield
                finally:
                    group.cancel_scope.cancel()
        finally:
            if account is not None:
                await to_thread.run_sync(os.close, account)

    async def _tick(self, account: int | None) -> None:
        while True:
            began, queued = time.perf_counter(), _queued_ms(account)
            await anyio.sleep(TICK_SECONDS)
            self.late_ms.append((time.perf_counter() - began - TICK_SECONDS) * 1000)
            self.queued_ms.append(_queued_ms(account) - queued)


def _open_account() -> int | None:
    """Return the scheduler's account of this thread, open; None if the system keeps none."""
    try:
        return os.open(_SCHEDULER, os.O_RDONLY)
    except OSError:
        return None


def _queued_ms(account: int | None) -> float:
    if account is None:
        return 0.0
    return int(os.pread(account, 100, 0).split()[1]) / 1e6
