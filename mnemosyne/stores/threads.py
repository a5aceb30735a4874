"""Awaits blocking store calls: one call in one thread.

All SQL stores treat a cancelled caller alike. They await threads of their own (asyncio's bridge to concurrent.futures)
instead of a shared pool's, because a pool frees its slot when a caller is cancelled, while the transaction is still
running. It knows no database.
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
    """Return the result of `work` from one of these threads.

    A caller that is cancelled before the work begins has done nothing. After that, with `finish`, it is released when
    the work is over, so that the outcome is known; without `finish` it is released at once, and the work continues to
    its end.
    """
    await anyio.lowlevel.checkpoint_if_cancelled()
    with anyio.CancelScope(shield=finish):
        result = await asyncio.wrap_future(threads.submit(work))
    return result  # noqa: RET504 (a scope may swallow, says its type)


async def run_shielded(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """Return the result of `work` from one of these threads; the work is done even if the caller is cancelled."""
    with anyio.CancelScope(shield=True):
        result = await asyncio.shield(asyncio.wrap_future(threads.submit(work)))
    return result  # noqa: RET504 (a scope may swallow, says its type)
