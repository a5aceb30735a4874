"""Lets one call at a time work on a session: a lock within the process, and the store's lock among processes.

A lock is created when the first call needs it and removed when no call waits for it. This module must not import a
store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import field
from typing import Any, TypeVar

import anyio

from mnemosyne.core.off_loop import in_worker, is_built_in
from mnemosyne.protocols import SessionLocks
from mnemosyne.values import dataclass

T = TypeVar("T")


@dataclass(slots=True)
class _Gate:
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    wanted: int = 0
    left: anyio.Event = field(default_factory=anyio.Event)


class SessionLock:
    """Admits one caller at a time to each session, in the order of the calls. Different sessions never wait for each
    other.

    `locks` are locks of the store that order the calls of several processes (None: no other process uses the store).
    Such a lock is acquired after the lock of this process.
    """

    def __init__(self, locks: SessionLocks | None = None) -> None:
        self._locks = locks
        self._gates: dict[str, _Gate] = {}

    def __len__(self) -> int:
        return len(self._gates)

    async def run(self, session_id: str, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the async function `step`, which runs in one worker thread while the session is locked.

        Raises StoreBusyError if another process does not release the session.
        """
        if self._locks is not None and not is_built_in(self._locks):
            async with self.acquire(session_id):
                return await in_worker(step)

        async def run_locked() -> T:
            async with self._hold_among_processes(session_id):
                return await step()

        async with self._enter(session_id):
            return await in_worker(run_locked)

    async def wait_until_free(self, session_id: str) -> None:
        """Wait until no call of this process uses a session or waits for it. The session is not locked."""
        while (gate := self._gates.get(session_id)) is not None:
            await gate.left.wait()

    @asynccontextmanager
    async def acquire(self, session_id: str) -> AsyncIterator[None]:
        """Lock a session for the duration of the block. Raises StoreBusyError if another process does not release the
        session.
        """
        async with self._enter(session_id), self._hold_among_processes(session_id):
            yield

    @asynccontextmanager
    async def _enter(self, session_id: str) -> AsyncIterator[None]:
        """Lock a session within this process."""
        gate = self._gates.setdefault(session_id, _Gate())
        gate.wanted += 1
        try:
            async with gate.lock:
                yield
        finally:
            gate.wanted -= 1
            if not gate.wanted:
                self._gates.pop(session_id, None)
                gate.left.set()

    def _hold_among_processes(self, session_id: str) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self._locks is None else self._locks.hold(session_id)
