"""Archives and erases idle sessions, and deletes leftovers. A lease lets only one process of all hosts work on the
store. The files on a host are tidied by one process of that host.

The lease is a row in the store with an end and a number, which grows with each new holder. Every write for a session
carries this number. Therefore a process that was delayed and has lost the lease cannot write any more. Each step is one
transaction. If the process is killed, the next pass continues the work.
"""

from __future__ import annotations

import math
import os
import shutil
import socket
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from datetime import timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import monotonic
from uuid import uuid4

import anyio
from anyio import to_thread

from jacquard.config.service import ServiceSettings
from jacquard.config.tenant_sections import TenantSettings
from jacquard.service.upkeep import tidy
from jacquard.service.values import SERVICE_TENANT
from mnemosyne.core.errors import (
    LeaseLostError,
    MnemosyneError,
    SessionNotFoundError,
    StoreBusyError,
    VersionConflictError,
)
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.host_parts import SystemClock
from mnemosyne.protocols import Clock, Lease, SharedIndexStore, SharedScope, Store, StoreUpkeep
from mnemosyne.retrieval.engines.lance.files import remove_tables
from mnemosyne.schema.erasure import Erasure
from mnemosyne.schema.memory import EMPTY
from mnemosyne.stores.locate import StoreLocation, locate_store
from mnemosyne.stores.open import store_at
from mnemosyne.values import dataclass

LEASE = "housekeeping"
REASON = "idle longer than delete_days"
_PAGE = 100
_log = open_log(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class HousekeepingPass:
    """Result of one pass of the housekeeper."""

    counts: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    """Kind -> number of handled items. The kinds are archived, erased, turns, vectors, index segments, index tables,
    originals and backups.
    """
    holder: str = ""
    """Name of another process that holds the lease; '' if there is none. If another process holds the lease, this pass
    only tidied the files of this host.
    """
    faults: tuple[str, ...] = ()
    """Failures, one sentence each."""


class _RenewedLease:
    """Lease that is renewed during the work."""

    def __init__(self, store: StoreUpkeep, lease: Lease, seconds: float) -> None:
        self._store, self.lease, self._seconds = store, lease, seconds
        self._renewed = monotonic()

    async def renew(self) -> Lease:
        """Return the lease, renewed if a third of its time is over; raises LeaseLostError."""
        if monotonic() - self._renewed > self._seconds / 3:
            found = await self._store.acquire_lease(self.lease.name, self.lease.holder, self._seconds)
            if found is None or found.token != self.lease.token:
                raise LeaseLostError(self.lease.name, self.lease.holder)
            self.lease, self._renewed = found, monotonic()
        return self.lease


class Housekeeper:
    """Keeps the store of a service in order. `name` is the name of this process as holder of the lease; if it is '', a
    unique name is made.
    """

    def __init__(self, settings: ServiceSettings, *, clock: Clock | None = None, name: str = "") -> None:
        self._settings, self._set = settings, settings.housekeeping
        self._clock = clock or SystemClock()
        self.name = name or f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self._shared_after: dict[str, str] = {}
        """Last checked shared scope of a tenant; the next pass starts after it."""

    async def run(self) -> None:
        """Make a pass every `housekeeping.every_seconds`, until the call is cancelled. Faults are logged, and the next
        pass follows.
        """
        while True:
            try:
                done = await self.run_once()
                for fault in done.faults:
                    _log.warning("housekeeping: %s", fault)
            except MnemosyneError as error:
                _log.warning("housekeeping: %s", error)
            except OSError as error:
                _log.warning("housekeeping: %s", error.strerror or type(error).__name__)
            await anyio.sleep(self._set.every_seconds)

    async def run_once(self, *, deep: bool = False) -> HousekeepingPass:
        """Make one pass and return its result. If another process holds the lease, only leftovers on this host are
        removed.

        A `deep` pass checks all index data that hosts share. Any other pass checks `sessions_a_pass` scopes (sessions
        or worlds), beginning after the scopes of the previous pass. Raises StoreUnavailableError if the store cannot be
        used.
        """
        counts: Counter[str] = Counter()
        faults: list[str] = []
        holder = ""
        async with self._open("default") as (store, _):
            tenants: tuple[str, ...] = ("default",)
            if isinstance(store, StoreUpkeep):
                tenants = await store.tenants()
                holder = await self._with_lease(store, tenants, counts, faults, deep=deep)
            else:
                faults.append(self._unsupported())
        for tenant in tenants:
            await self._tidy_host(tenant, counts, faults)
        return HousekeepingPass(counts=dict(counts), holder=holder, faults=tuple(filter(None, faults)))

    async def _with_lease(
        self, store: StoreUpkeep, tenants: tuple[str, ...], counts: Counter[str], faults: list[str], *, deep: bool
    ) -> str:
        """Do the work that one process does for all hosts; return the other process that does it instead."""
        try:
            lease = await store.acquire_lease(LEASE, self.name, self._set.lease_seconds)
        except StoreBusyError:
            # The holder is in a transaction that the lease fences.
            lease = None
        if lease is None:
            return next((each.holder for each in await store.leases() if each.name == LEASE), "another process")
        held = _RenewedLease(store, lease, self._set.lease_seconds)
        try:
            for tenant in tenants:
                # The service's own records have no idle sessions, because using a token does not write to it.
                if tenant != SERVICE_TENANT:
                    await self._keep_tenant(tenant, held, counts, faults)
                    await self._tidy_shared(tenant, held, counts, faults, deep=deep)
            counts["backups"] += await self._drop_backups()
        except LeaseLostError as error:
            faults.append(str(error))
        finally:
            with anyio.CancelScope(shield=True):
                await store.release_lease(held.lease)
        return ""

    async def _keep_tenant(self, tenant: str, held: _RenewedLease, counts: Counter[str], faults: list[str]) -> None:
        keep = self._settings.of_tenant(tenant)
        if not (keep.archive_days or keep.abandoned_days):
            return
        async with self._open(tenant) as (store, location):
            if not isinstance(store, StoreUpkeep):
                return
            if keep.archive_days:
                counts["archived"] += await self._archive(store, location, keep, held, faults)
            if keep.delete_days:
                counts["erased"] += await self._erase(store, location, keep, held, faults)
            if keep.abandoned_days:
                before = self._clock.now() - timedelta(days=keep.abandoned_days)
                while dropped := await store.drop_abandoned(before, lease=await held.renew()):
                    counts["turns"] += dropped

    async def _archive(
        self, store: StoreUpkeep, location: StoreLocation, keep: TenantSettings, held: _RenewedLease, faults: list[str]
    ) -> int:
        now, number, after = self._clock.now(), 0, ""
        before = now - timedelta(days=keep.archive_days)
        while number < self._set.sessions_a_pass:
            page = await store.idle_sessions(before, after=after, limit=_PAGE)
            for idle in page.items[: self._set.sessions_a_pass - number]:
                lease = await held.renew()
                try:
                    done = await store.archive(idle.session_id, at=now, expected_version=idle.version, lease=lease)
                except (VersionConflictError, SessionNotFoundError):
                    # Somebody has used or erased it meanwhile.
                    continue
                except LeaseLostError:
                    raise
                except MnemosyneError as error:
                    faults.append(f"A session in {location.shown} was not archived: {error}")
                    continue
                number += done is not None
            if page.next is None:
                break
            after = page.next
        return number

    async def _erase(
        self, store: StoreUpkeep, location: StoreLocation, keep: TenantSettings, held: _RenewedLease, faults: list[str]
    ) -> int:
        """Erase archived sessions that were not opened since; the time between the two settings begins with the archiving."""
        now = self._clock.now()
        before = now - timedelta(days=keep.delete_days - keep.archive_days)
        number, after, vault = 0, "", tidy.vault_of(location)
        while number < self._set.sessions_a_pass:
            page = await store.archived_sessions(before=before, after=after, limit=_PAGE)
            for archived in page[: self._set.sessions_a_pass - number]:
                lease = await held.renew()
                erasure = Erasure(at=now, session_id=archived.session_id, reason=REASON)
                try:
                    done = await store.erase_archived(erasure, archived_before=before, lease=lease)
                except LeaseLostError:
                    raise
                except MnemosyneError as error:
                    faults.append(f"A session in {location.shown} was not erased: {error}")
                    continue
                if done is not None and vault is not None:
                    await vault.drop(session_ids=(archived.session_id,))
                number += done is not None
            if len(page) < _PAGE:
                break
            after = page[-1].session_id
        return number

    async def _tidy_shared(
        self, tenant: str, held: _RenewedLease, counts: Counter[str], faults: list[str], *, deep: bool
    ) -> None:
        """Remove shared vectors and index rows that no longer belong to anything."""
        after = self._shared_after.pop(tenant, "")
        async with self._open(tenant) as (store, location):
            if not isinstance(store, SharedIndexStore):
                return
            counts.update({"vectors": 0, "index segments": 0})
            after, left = ("", math.inf) if deep else (after, self._set.sessions_a_pass)
            while left:
                asked = int(min(left, _PAGE))
                scopes = await store.shared_scopes(after=after, limit=asked)
                for scope in scopes:
                    lease = await held.renew()
                    try:
                        gone = await _tidy_scope(store, scope, lease)
                    except LeaseLostError:
                        raise
                    except MnemosyneError as error:
                        faults.append(f"What hosts share of {scope!r} in {location.shown} was not tidied: {error}")
                        continue
                    counts["vectors"] += gone.orphaned_vectors
                    counts["index segments"] += gone.orphaned_segments
                if len(scopes) < asked:
                    return
                left, after = left - len(scopes), scopes[-1]
            self._shared_after[tenant] = after

    async def _drop_backups(self) -> int:
        if self._set.backups is None:
            return 0
        old = await to_thread.run_sync(tidy.old_backups, Path(self._set.backups), self._set.backups_kept)
        for file in old:
            await to_thread.run_sync(partial(file.unlink, missing_ok=True))
        return len(old)

    async def _tidy_host(self, tenant: str, counts: Counter[str], faults: list[str]) -> None:
        """Remove leftovers next to the store on this host, by one of its processes."""
        async with self._open(tenant) as (store, location):
            if location.index is None:
                return
            async with self._host_lease(store, location) as is_ours:
                if not is_ours:
                    return
                vault = tidy.vault_of(location)
                try:
                    tables = await to_thread.run_sync(tidy.list_session_tables, location.index)
                    folders = await to_thread.run_sync(tidy.list_originals, vault)
                    sessions = frozenset(await store.sessions())
                    left = await to_thread.run_sync(tidy.leftover_tables, tables, await tidy.open_sessions(store))
                    if left:
                        await remove_tables(str(location.index), left)
                    for name in tidy.leftover_originals(folders, sessions):
                        if vault is not None:
                            await to_thread.run_sync(shutil.rmtree, vault.folder / name)
                            counts["originals"] += 1
                    counts["index tables"] += len(left)
                except OSError as error:
                    faults.append(
                        f"{location.index.parent} of this host cannot be tidied: {error.strerror or error}; grant this user its "
                        "files."
                    )

    @asynccontextmanager
    async def _host_lease(self, store: Store, location: StoreLocation) -> AsyncIterator[bool]:
        if not isinstance(store, StoreUpkeep):
            yield True
            return
        folder = await to_thread.run_sync(Path(location.index or "").absolute)
        name = f"files of {socket.gethostname()} {sha256(str(folder).encode()).hexdigest()[:12]}"
        try:
            lease = await store.acquire_lease(name, self.name, self._set.lease_seconds)
        except StoreBusyError:
            lease = None
        try:
            yield lease is not None
        finally:
            if lease is not None:
                with anyio.CancelScope(shield=True):
                    await store.release_lease(lease)

    def _unsupported(self) -> str:
        asked = [self._settings.each_tenant, *self._settings.by_tenant.values()]
        if not any(each.archive_days or each.abandoned_days for each in asked):
            return ""
        return (
            f"{self._settings.store} keeps no archives: only SQLite and PostgreSQL do, so no session is archived or erased. "
            "`jacquard operate backup` and `jacquard operate doc` bring sessions into such a store."
        )

    @asynccontextmanager
    async def _open(self, tenant: str) -> AsyncIterator[tuple[Store, StoreLocation]]:
        location = await to_thread.run_sync(locate_store, self._settings.store, tenant)
        store = await to_thread.run_sync(partial(store_at, location, tenant=tenant, create=False))
        try:
            yield store, location
        finally:
            await store.close()


async def _tidy_scope(store: SharedIndexStore, scope: str, lease: Lease) -> SharedScope:
    """Remove the orphans of a scope and return them; a scope in order is only read."""
    found = await store.inspect_shared(scope)
    if found.orphaned_vectors or found.orphaned_segments:
        return await store.tidy_shared(scope, lease=lease)
    return found
