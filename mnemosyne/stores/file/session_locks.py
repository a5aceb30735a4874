"""Locks sessions across the processes of one machine: one file per session, locked by the operating system.

A turn lasts longer than a transaction. The lock keeps two processes from working on turns of one session at the same time. The
operating system releases a lock when its process ends, so locks need no expiry. This module must not import a store.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Lock
from time import monotonic

import anyio
from filelock import FileLock, Timeout

from mnemosyne.core.errors import StoreBusyError, StoreUnavailableError
from mnemosyne.core.off_loop import on_loop
from mnemosyne.files import make_private_folder, private_mode
from mnemosyne.stores.threads import run_shielded

_FIRST_WAIT_SECONDS = 0.005
_LONGEST_WAIT_SECONDS = 0.1
_THREADS = 4


class FileSessionLocks:
    """Locks for the sessions of one tenant of a store, as files in a folder next to the store.

    A waiting caller tries again after 5 ms, then at growing intervals of at most 100 ms, for `wait_seconds` in total.
    """

    def __init__(self, folder: str | Path, *, tenant: str = "default", wait_seconds: float = 60.0) -> None:
        self._folder = Path(folder)
        self._tenant = tenant
        self._wait_seconds = wait_seconds
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="session-locks")

    @asynccontextmanager
    async def hold(self, session_id: str) -> AsyncIterator[None]:
        """Hold the lock of a session during the block.

        Raises StoreBusyError if the lock is not free after `wait_seconds`. Raises StoreUnavailableError if the lock
        file cannot be used.
        """
        claim = _Claim(self._file(session_id))
        try:
            await self._acquire(claim, session_id)
            yield
        finally:
            await run_shielded(self._threads, claim.give_back)

    async def close(self) -> None:
        """Release the threads that request locks."""
        self._threads.shutdown(wait=False)

    def _file(self, session_id: str) -> Path:
        digest = hashlib.sha256(f"{self._tenant}\0{session_id}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self._folder / f"{digest}.lock"

    async def _acquire(self, claim: _Claim, session_id: str) -> None:
        until = monotonic() + self._wait_seconds
        wait = _FIRST_WAIT_SECONDS
        while not await run_shielded(self._threads, claim.take):
            if monotonic() >= until:
                raise StoreBusyError(str(self._folder), self._wait_seconds, session_id=session_id)
            await on_loop(anyio.sleep, wait)
            wait = min(wait * 2, _LONGEST_WAIT_SECONDS)


class _Claim:
    """One caller's request for a lock. If the caller is gone before the thread begins, the thread does not request it."""

    def __init__(self, file: Path) -> None:
        self._file, self._one, self._is_over = file, Lock(), False
        self._lock: FileLock | None = None

    def take(self) -> bool:
        """Return whether the lock was acquired."""
        with self._one:
            if self._is_over:
                return False
            if self._lock is None:
                self._lock = _open_lock(self._file)
            return _take(self._lock)

    def give_back(self) -> None:
        """Release the lock, and never acquire it again."""
        with self._one:
            self._is_over = True
            if self._lock is not None:
                self._lock.release()


def _open_lock(file: Path) -> FileLock:
    return FileLock(file, thread_local=False, blocking=False, mode=private_mode(file))


def _take(lock: FileLock) -> bool:
    try:
        # The lock would create the folder by itself, and open it to others.
        make_private_folder(Path(lock.lock_file).parent)
        lock.acquire(blocking=False)
    except Timeout:
        return False
    except OSError as error:
        reason = f"the session cannot be locked for writing ({error.strerror or error})"
        raise StoreUnavailableError(lock.lock_file, reason) from error
    return True
