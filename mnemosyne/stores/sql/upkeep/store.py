"""Implements the StoreUpkeep protocol (maintenance) on a SQL database, and opens archived sessions when they are needed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol, TypeVar

from mnemosyne.protocols.upkeep import ArchivedSession, IdlePage, Lease, SessionLimit, StoreUpkeep, StoreUsage
from mnemosyne.schema.erasure import Erasure, ErasureOutcome
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.sessions import SessionArchivedError, count_up_to
from mnemosyne.stores.sql.upkeep import archiving, figures, leases

T = TypeVar("T")


class Runner(Protocol):
    """Runs whole transactions off the event loop."""

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Return the result of `work`, which runs in one transaction. If `work` raises, everything is rolled back."""
        ...

    async def close(self) -> None:
        """Wait for running work, then release the connections and threads. A second call does nothing."""
        ...


class OpeningRunner:
    """Runs transactions on `runner`. If one needs an archived session, the session is opened and the transaction runs
    again.
    """

    def __init__(self, runner: Runner, writes: Runner) -> None:
        self._runner, self._writes = runner, writes

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Return the result of `work`, which runs in one transaction."""
        while True:
            try:
                return await self._runner.run(work)
            except SessionArchivedError as error:
                needed = error.session_ids
            for session_id in needed:
                await self._open(session_id)

    async def _open(self, session_id: str) -> bool:
        return await self._writes.run(lambda db: archiving.open_archived(db, session_id))

    async def close(self) -> None:
        """Close the runner."""
        await self._runner.close()


class SqlUpkeep(StoreUpkeep):
    """The maintenance methods of a SqlStore. See `mnemosyne.protocols.upkeep.StoreUpkeep` for them."""

    _reads: Runner
    _writes: Runner
    _session_limit: SessionLimit | None = None

    async def acquire_lease(self, name: str, holder: str, seconds: float) -> Lease | None:
        return await self._writes.run(lambda db: leases.acquire(db, name, holder, seconds))

    async def release_lease(self, lease: Lease) -> None:
        await self._writes.run(lambda db: leases.release(db, lease))

    async def leases(self) -> tuple[Lease, ...]:
        return await self._reads.run(leases.read_leases)

    async def tenants(self) -> tuple[str, ...]:
        return await self._reads.run(figures.read_tenants)

    async def idle_sessions(self, before: datetime, *, after: str = "", limit: int = 100) -> IdlePage:
        return await self._reads.run(lambda db: figures.read_idle(db, before, after, limit))

    async def archive(
        self, session_id: str, *, at: datetime, expected_version: int | None = None, lease: Lease | None = None
    ) -> ArchivedSession | None:
        return await self._writes.run(lambda db: archiving.archive(db, session_id, at, expected_version, lease))

    async def open_archived(self, session_id: str) -> bool:
        return await self._writes.run(lambda db: archiving.open_archived(db, session_id))

    async def archived_sessions(
        self, *, before: datetime | None = None, after: str = "", limit: int = 100, session_id: str | None = None
    ) -> tuple[ArchivedSession, ...]:
        return await self._reads.run(lambda db: archiving.read_archived(db, before, after, limit, session_id))

    async def archived_ids(self) -> frozenset[str]:
        return await self._reads.run(archiving.read_archived_ids)

    async def erase_archived(
        self, erasure: Erasure, *, archived_before: datetime, lease: Lease | None = None
    ) -> ErasureOutcome | None:
        return await self._writes.run(lambda db: archiving.erase_archived(db, erasure, archived_before, lease))

    async def check_archive(self, session_id: str) -> None:
        await self._reads.run(lambda db: archiving.check_archive(db, session_id))

    async def usage(self) -> StoreUsage:
        return await self._reads.run(figures.read_usage)

    def limit_sessions(self, limit: SessionLimit | None) -> None:
        self._session_limit = limit

    async def count_entries(self, most: int) -> int:
        return await self._reads.run(lambda db: count_up_to(db, "entries", most))

    async def drop_abandoned(self, before: datetime, *, limit: int = 1000, lease: Lease | None = None) -> int:
        def work(db: Connection) -> int:
            leases.check(db, lease)
            return figures.drop_abandoned(db, before, limit)

        return await self._writes.run(work)
