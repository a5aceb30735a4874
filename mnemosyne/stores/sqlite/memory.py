"""Stores sessions in memory: for tests, for hosts that store nothing, and for trying things out.

The store is a SQLite database without a file. Rules and tables are the same as those of the SQLite store.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from weakref import finalize

import anyio.lowlevel

from mnemosyne.damage import DamageLog
from mnemosyne.stores.sql.read_bodies import BodyCache
from mnemosyne.stores.sql.store import SqlStore
from mnemosyne.stores.sqlite.file import SqliteConnection, open_memory
from mnemosyne.stores.sqlite.worker import SqliteWorker
from mnemosyne.stores.threads import SerialThread

_SHOWN = "memory:"


class MemoryStore(SqlStore):
    """A Store whose sessions exist as long as this instance, or a view of it for another tenant, exists.

    It keeps all rules of `mnemosyne.protocols.Store` except rule 1.
    """

    def __init__(self, tenant: str = "default") -> None:
        self._open(_Memory(), tenant)

    def _open(self, memory: _Memory, tenant: str) -> None:
        self._memory, self.tenant = memory, tenant
        log, cache = DamageLog(), memory.caches.setdefault(tenant, BodyCache())
        runner = SqliteWorker(
            Path(_SHOWN),
            lambda: SqliteConnection(memory.connect(), tenant, shown=_SHOWN, log=log, cache=cache),
            begin="BEGIN IMMEDIATE",
            busy_seconds=0.0,
            finish=True,
            thread=memory.thread,
        )
        super().__init__(reads=runner, writes=runner, log=log, cache=cache)

    def for_tenant(self, tenant: str) -> MemoryStore:
        """Return a view of the same memory for another tenant. Neither tenant sees the data of the other."""
        view = MemoryStore.__new__(MemoryStore)
        view._open(self._memory, tenant)
        return view

    async def close(self) -> None:
        """Do nothing. The data is released with the last view of the memory."""
        await anyio.lowlevel.checkpoint()


class _Memory:
    """A database without a file. Its transactions run one at a time."""

    def __init__(self) -> None:
        self.thread = SerialThread("mnemosyne-memory")
        self.caches: dict[str, BodyCache] = {}
        self._driver: sqlite3.Connection | None = None

    def connect(self) -> sqlite3.Connection:
        """Return the connection, which the first call opens."""
        if self._driver is None:
            self._driver = open_memory()
            finalize(self, self._driver.close)
        return self._driver
