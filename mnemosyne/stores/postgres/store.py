"""Stores sessions in a PostgreSQL database, for many processes on many hosts.

A writer first locks the row of its session. So writes to one session run one after the other, and writes to different sessions
run at the same time. Hosts share parts of their indexes through the database (`vectors`, `segments`). The module is imported only
if an address names PostgreSQL, and must not import other stores.
"""

from __future__ import annotations

from mnemosyne.damage import DamageLog
from mnemosyne.protocols import Lease, SharedScope
from mnemosyne.stores.locate import PostgresAddress, postgres_address
from mnemosyne.stores.postgres import shared_upkeep
from mnemosyne.stores.postgres.database import PostgresOptions
from mnemosyne.stores.postgres.locks import PostgresSessionLocks
from mnemosyne.stores.postgres.pool import ConnectionPool
from mnemosyne.stores.postgres.segments import PostgresSegments
from mnemosyne.stores.postgres.vectors import PostgresVectors
from mnemosyne.stores.sql.read_bodies import BodyCache
from mnemosyne.stores.sql.store import SqlStore


class PostgresStore(SqlStore):
    """A Store in one schema of a PostgreSQL database (14 or later, UTF-8), opened for one tenant.

    Nothing is opened before the first call, which creates the schema and its tables. See `mnemosyne.protocols.Store`
    for the methods. A write raises CommitUnknownError if the connection is lost during the commit. `docs/en/stores.md`
    states which texts an erasure leaves in the server's files.

    Args:
        url: Address for libpq (`postgresql://USER:PASSWORD@HOST:PORT/DATABASE?...`). The parameter `schema=NAME` names
            the schema (default `mnemosyne`).
        busy_seconds: Maximum wait for another writer of the same session. After this time a call raises StoreBusyError.
        create: If false, a missing schema is not created.
        connections: Maximum number of connections for writes, and the same number for reads.

    `shown` is the address without its password.
    """

    def __init__(
        self,
        url: str | PostgresAddress,
        *,
        tenant: str = "default",
        busy_seconds: float = 5.0,
        create: bool = True,
        connections: int = 4,
    ) -> None:
        address = postgres_address(url) if isinstance(url, str) else url
        self.shown = address.shown
        self.tenant = tenant
        log, cache = DamageLog(), BodyCache()
        opening = PostgresOptions(address=address, busy_seconds=busy_seconds, create=create)
        reads = ConnectionPool(opening, tenant, log, cache, connections=connections, writing=False)
        writes = ConnectionPool(opening, tenant, log, cache, connections=connections, writing=True)
        super().__init__(reads=reads, writes=writes, log=log, cache=cache)
        self.vectors = PostgresVectors(reads, writes, PostgresSessionLocks(address, tenant=tenant), self.shown)
        self.segments = PostgresSegments(reads, writes)

    async def shared_scopes(self, *, after: str = "", limit: int = 100) -> tuple[str, ...]:
        """Return at most `limit` scopes after `after` with shared index data; see `mnemosyne.protocols.SharedIndexStore`."""
        return await self._reads.run(lambda db: shared_upkeep.list_scopes(db, after, limit))

    async def inspect_shared(self, scope: str, *, encoder: str = "") -> SharedScope:
        """Return the shared index data of a scope."""
        return await self._reads.run(lambda db: shared_upkeep.inspect(db, scope, encoder))

    async def tidy_shared(self, scope: str, *, lease: Lease | None = None) -> SharedScope:
        """Remove the shared index data of a scope that no entry needs."""
        return await self._writes.run(lambda db: shared_upkeep.tidy(db, scope, lease))

    async def close(self) -> None:
        """Wait for running work, then release the connections and the threads. A second call does nothing."""
        await self.vectors.close()
        await super().close()
