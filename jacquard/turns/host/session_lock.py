"""One call at a time on a session: a lock within the process, and the store's lock among processes.

Locks are created when they are needed and removed when nothing waits for them. This module must not import a store.
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
    """Admits one caller at a time to each session, in the order of their calls. Sessions never wait for others.

    `locks` (None: this process is the only one) are acquired once the process's own lock is held.
    """

    def __init__(self, locks: SessionLocks | None = None) -> None:
        self._locks = locks
        self._gates: dict[str, _Gate] = {}

    def __len__(self) -> int:
        return len(self._gates)

    @asynccontextmanager
    async def acquire(self, session_id: str) -> AsyncIterator[None]:
        """Hold a session for the duration of the block; raises StoreBusyError if another process does not release it."""
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
