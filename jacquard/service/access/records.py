"""Opens the service's own records: the tokens of all tenants and the audit of calls. They are stored under a tenant that
is reserved for them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jacquard.service.access.audit import AuditTrail
from jacquard.service.access.tokens import TokenRegistry
from jacquard.service.values import SERVICE_TENANT
from mnemosyne.host_parts import SystemClock
from mnemosyne.protocols import Store
from mnemosyne.stores.open import open_store
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceRecords:
    """Tokens and audit of a service with tenants. Call `close` at the end."""

    store: Store
    tokens: TokenRegistry
    audit: AuditTrail

    async def close(self) -> None:
        """Close the store."""
        await self.store.close()


def open_records(address: str) -> ServiceRecords:
    """Return the records in the store at `address`. Nothing is read before the first use. Raises StoreUnavailableError
    if the store cannot be opened.
    """
    store, clock = open_store(address, tenant=SERVICE_TENANT), SystemClock()
    return ServiceRecords(store=store, tokens=TokenRegistry(store, clock), audit=AuditTrail(store, clock))


@asynccontextmanager
async def using_records(address: str) -> AsyncIterator[ServiceRecords]:
    """Yield the records in the store at `address`, and close them after the block."""
    records = open_records(address)
    try:
        yield records
    finally:
        await records.close()
