"""Runs blocking store calls in threads, and awaits them on the event loop.

All SQL stores treat a cancelled caller in the same way. They use threads of their own instead of a shared pool. A
shared pool would free the slot of a cancelled caller while its transaction is still running. The module knows no
database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import anyio
import anyio.lowlevel

T = TypeVar("T")


async def run_in_thread(threads: ThreadPoolExecutor, work: Callable[[], T], *, finish: bool) -> T:
    """Return the result of `work`, which runs on one of `threads`.

    If the caller is cancelled before the work begins, the work is not done. If the caller is cancelled later, `finish`
    decides. With `finish` the caller is released when the work is over, so that its outcome is known. Without `finish`
    the caller is released at once, and the work continues to its end.
    """
    await anyio.lowlevel.checkpoint_if_cancelled()
    with anyio.CancelScope(shield=finish):
        result = await asyncio.wrap_future(threads.submit(work))
    return result  # noqa: RET504 (a scope may swallow, says its type)


async def run_shielded(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """Return the result of `work`, which runs on one of `threads`. The work is done even if the caller is cancelled."""
    with anyio.CancelScope(shield=True):
        result = await asyncio.shield(asyncio.wrap_future(threads.submit(work)))
    return result  # noqa: RET504 (a scope may swallow, says its type)
