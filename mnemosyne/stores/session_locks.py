"""Locks of sessions that hold among processes (spec 4, E1): one file a session, locked by the system for as long as it is open.

The room exists because a turn is longer than a transaction: who prepares a turn must not write over what another process has
just committed. A lock of the system dies with its holder, so nothing has to expire. It must not import a store.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio import CapacityLimiter, to_thread
from filelock import FileLock, Timeout

from mnemosyne.errors import StoreBusyError, StoreUnavailableError

_FIRST_WAIT_SECONDS = 0.005
_LONGEST_WAIT_SECONDS = 0.1
_THREADS = 8


class FileSessionLocks:
    """Locks of the sessions of one tenant of a store on this machine, in a folder beside it.

    Whoever waits looks again after 5 ms, then ever more seldom, at least every 100 ms. `wait_seconds` bounds the wait.
    """

    def __init__(self, folder: str | Path, *, tenant: str = "default", wait_seconds: float = 60.0) -> None:
        self._folder = Path(folder)
        self._tenant = tenant
        self._wait_seconds = wait_seconds
        self._threads = CapacityLimiter(_THREADS)

    @asynccontextmanager
    async def hold(self, session_id: str) -> AsyncIterator[None]:
        """Hold a session as long as the block lasts; StoreBusyError, StoreUnavailableError."""
        lock = FileLock(self._file(session_id), thread_local=False, blocking=False)
        await self._acquire(lock)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(lock.release, limiter=self._threads)

    async def close(self) -> None:
        """Release what is open: nothing is, when nobody holds a session."""

    def _file(self, session_id: str) -> Path:
        digest = hashlib.sha256(f"{self._tenant}\0{session_id}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self._folder / f"{digest}.lock"

    async def _acquire(self, lock: FileLock) -> None:
        until = anyio.current_time() + self._wait_seconds
        wait = _FIRST_WAIT_SECONDS
        while not await self._try(lock):
            if anyio.current_time() >= until:
                raise StoreBusyError(str(self._folder), self._wait_seconds)
            await anyio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT_SECONDS)

    async def _try(self, lock: FileLock) -> bool:
        """Return whether the lock is ours now; one that was got while the caller was cancelled is given back."""
        try:
            return await to_thread.run_sync(_take, lock, limiter=self._threads)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(lock.release, limiter=self._threads)
            raise


def _take(lock: FileLock) -> bool:
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return False
    except FileNotFoundError:
        Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
        return _take(lock)
    except OSError as error:
        raise StoreUnavailableError(lock.lock_file, error.strerror or str(error)) from error
    return True
