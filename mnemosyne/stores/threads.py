"""Runs blocking store calls in threads, and awaits them on the event loop.

All SQL stores treat a cancelled caller in the same way. Each store has threads of its own. A pool shared with other code would
free the slot of a cancelled caller while the transaction of this caller is still running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import TypeVar

import anyio
import anyio.lowlevel

from mnemosyne.core.off_loop import is_in_worker, on_loop

T = TypeVar("T")


class SerialThread:
    """Runs one piece of work at a time, in a thread of its own. If the caller already runs in a worker thread (`in_worker`), the
    work runs in the caller's thread.
    """

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._one = Lock()

    async def run(self, work: Callable[[], T], *, finish: bool) -> T:
        """Return the result of `work`. `finish` is explained at `run_in_thread`."""
        if is_in_worker():
            return self._run_alone(work)
        return await run_in_thread(self._thread, partial(self._run_alone, work), finish=finish)

    async def end(self, last: Callable[[], None]) -> None:
        """Run `last` after all other work, then release the thread."""
        ending = self._thread.submit(self._run_alone, last)
        self._thread.shutdown(wait=False)
        await asyncio.wrap_future(ending)

    def _run_alone(self, work: Callable[[], T]) -> T:
        with self._one:
            return work()


async def run_in_thread(threads: ThreadPoolExecutor, work: Callable[[], T], *, finish: bool) -> T:
    """Return the result of `work`, which runs on one of `threads`.

    If the caller is cancelled before the work begins, the work is not done. If the caller is cancelled later and `finish` is
    true, the caller is released when the work is over, so that the outcome is known. If `finish` is false, the caller is
    released at once, and the work continues to its end.
    """
    if is_in_worker():
        return await on_loop(partial(run_in_thread, threads, work, finish=finish))
    await anyio.lowlevel.checkpoint_if_cancelled()
    with anyio.CancelScope(shield=finish):
        result = await asyncio.wrap_future(threads.submit(work))
    return result  # noqa: RET504 (a scope may swallow, says its type)


async def run_shielded(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """Return the result of `work`, which runs on one of `threads`. The work is done even if the caller is cancelled."""
    if is_in_worker():
        return work()
    with anyio.CancelScope(shield=True):
        result = await asyncio.shield(asyncio.wrap_future(threads.submit(work)))
    return result  # noqa: RET504 (a scope may swallow, says its type)
