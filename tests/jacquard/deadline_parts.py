"""Stream B's deadline ended by hand, for tests of what comes after it: no test waits to see who is faster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio
import pytest
from anyio import to_thread
from servers.openai_server import OpenAiServer

T = TypeVar("T")


class Deadline:
    """Is over when a test says so, for the turns that wait at that moment; its milliseconds say nothing."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, anyio.CancelScope]] = []

    def scope(self, seconds: float) -> anyio.CancelScope:
        """Stand in for `anyio.move_on_after`."""
        self._waiting.append((seconds, anyio.CancelScope()))
        return self._waiting[-1][1]

    def comes_near(self) -> None:
        """Tell all who wait now that it comes near: of their limits, all but the longest are over."""
        last = max(seconds for seconds, _ in self._waiting)
        for seconds, scope in self._waiting:
            if seconds < last:
                scope.cancel()

    def end(self) -> None:
        """End it for all who wait now."""
        for _, scope in self._waiting:
            scope.cancel()
        self._waiting.clear()

    async def missed(self, server: OpenAiServer, turn: Callable[[], Awaitable[T]]) -> T:
        """Return what `turn` gives if the deadline ends as soon as the server is asked."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_once_asked, server, len(server.requests) + 1)
            return await turn()
        raise AssertionError("a turn was cancelled")

    async def _end_once_asked(self, server: OpenAiServer, times: int) -> None:
        await to_thread.run_sync(server.wait_for_requests, times)
        self.end()


@contextmanager
def deadline_by_hand() -> Iterator[Deadline]:
    """Every turn of this block waits for Stream B until the test ends the deadline."""
    deadline = Deadline()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jacquard.pipeline.curation.deadline.deadline_scope", deadline.scope)
        yield deadline
