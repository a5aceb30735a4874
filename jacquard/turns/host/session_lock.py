"""Lets one call at a time work on a session: a lock within the process, and the store's lock among processes.

A lock is created when the first call needs it and removed when no call waits for it. This module must not import a
store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from mnemosyne.protocols import SessionLocks


@dataclass(slots=True)
class _Gate:
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    wanted: int = 0


class SessionLock:
    """Admits one caller at a time to each session, in the order of the calls. Different sessions never wait for each
    other.

    `locks` order the calls among processes; each is acquired after the lock of this process. None: no other process
    uses the store.
    """

    def __init__(self, locks: SessionLocks | None = None) -> None:
        self._locks = locks
        self._gates: dict[str, _Gate] = {}

    def __len__(self) -> int:
        return len(self._gates)

    @asynccontextmanager
    async def acquire(self, session_id: str) -> AsyncIterator[None]:
        """Lock a session for the duration of the block. Raises StoreBusyError if another process does not release the
        session.
        """
        gate = self._gates.setdefault(session_id, _Gate())
        gate.wanted += 1
        try:
            async with gate.lock:
                if self._locks is None:
                    yield
                    return
                async with self._locks.hold(session_id):
                    yield
        finally:
            gate.wanted -= 1
            if not gate.wanted:
                self._gates.pop(session_id, None)
