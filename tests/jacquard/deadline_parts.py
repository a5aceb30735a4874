"""Time that a test moves on by hand, for tests of what comes after a deadline: no test waits to see who is faster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio
import anyio.lowlevel
from anyio import to_thread
from loop_watch import WatchedLoop
from servers.openai_server import OpenAiServer

from jacquard import CurationConfig
from jacquard.pipeline.curation.deadline import NEAR_SECONDS

T = TypeVar("T")


class StoppableLoop(WatchedLoop):
    """The event loop of the other tests, except that its time can be stopped and moved on."""

    def __init__(self) -> None:
        self._stopped_at: float | None = None
        self._skipped = 0.0
        super().__init__()

    def time(self) -> float:
        """Return the loop's time in seconds, after which all timeouts go."""
        return super().time() + self._skipped if self._stopped_at is None else self._stopped_at

    def stop_time(self) -> None:
        """Let no time pass but by `move_on`."""
        self._stopped_at = self.time()

    def start_time(self) -> None:
        """Let time pass again, from where it is."""
        if self._stopped_at is not None:
            self._skipped = self._stopped_at - super().time()
            self._stopped_at = None

    def move_on(self, seconds: float) -> None:
        """Move stopped time on; what was to happen until then happens next."""
        assert self._stopped_at is not None
        self._stopped_at += seconds


class Deadline:
    """Is over when a test says so, for the turns that wait at that moment. Time stands still otherwise."""

    def __init__(self, loop: StoppableLoop, curation: CurationConfig) -> None:
        self._loop, self._seconds = loop, curation.deadline_ms / 1000
        self._is_near = False

    def comes_near(self) -> None:
        """Move time on to shortly before the deadline."""
        self._is_near = True
        self._loop.move_on(self._seconds - NEAR_SECONDS / 2)

    def end(self) -> None:
        """Move time on to shortly after the deadline."""
        self._loop.move_on(NEAR_SECONDS if self._is_near else self._seconds + NEAR_SECONDS / 2)
        self._is_near = False

    def pass_by(self, seconds: float) -> None:
        """Move time on, behind the deadline."""
        self._loop.move_on(seconds)

    async def missed(self, server: OpenAiServer, turn: Callable[[], Awaitable[T]]) -> T:
        """Return what `turn` gives if the deadline ends as soon as the server is asked."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_once_asked, server, len(server.requests) + 1)
            return await turn()
        raise AssertionError("a turn was cancelled")

    async def _end_once_asked(self, server: OpenAiServer, times: int) -> None:
        await to_thread.run_sync(server.wait_for_requests, times)
        self.end()


async def run_other_tasks() -> None:
    """Return once the other tasks have done what they could do without waiting; stopped time knows no `sleep`."""
    for _ in range(50):
        await anyio.lowlevel.checkpoint()


@contextmanager
def deadline_by_hand(curation: CurationConfig) -> Iterator[Deadline]:
    """Every turn of this block waits for Stream B until the test ends its deadline, which is that of `curation`.

    The test runs on a StoppableLoop (the fixture `anyio_backend` of this folder).
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, StoppableLoop)
    loop.stop_time()
    try:
        yield Deadline(loop, curation)
    finally:
        loop.start_time()
