"""Lets only one thread at a time run an embedding model, and lets queries run before documents."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio
from anyio import to_thread

T = TypeVar("T")
_WAITING_QUERIES = 4


class ModelLane:
    """Controls which thread runs a model. Only one forward pass runs at a time, because two only slow each other down, and two
    threads must not use one tokenizer. A waiting query runs before all documents.
    """

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._is_busy, self._queries = False, 0
        self._query_threads = anyio.CapacityLimiter(_WAITING_QUERIES)
        # Documents of many sessions wait for this one thread, so that they take none from a query.
        self._document_threads = anyio.CapacityLimiter(1)

    async def run(self, work: Callable[[], T], *, is_query: bool) -> T:
        """Run `work` on a worker thread and return its result. `work` must call `take` around each forward pass.

        The worker thread itself holds the lane, because a pass keeps running if its caller is cancelled.
        """
        limiter = self._query_threads if is_query else self._document_threads
        return await to_thread.run_sync(work, limiter=limiter, abandon_on_cancel=True)

    @contextmanager
    def take(self, *, is_query: bool) -> Iterator[None]:
        """Hold the lane while the block runs on the calling thread."""
        with self._change:
            self._queries += is_query
            try:
                self._change.wait_for(lambda: not self._is_busy and (is_query or not self._queries))
            finally:
                self._queries -= is_query
            self._is_busy = True
        try:
            yield
        finally:
            with self._change:
                self._is_busy = False
                self._change.notify_all()
