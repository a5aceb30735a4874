"""Runs a read-only health check of a store and its surroundings, and suggests a fix for each finding.

The checks (package `checks`) run one by one. If the database cannot be reached, files, packages and settings are still
checked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread

from jacquard.core.errors import ConfigError
from jacquard.service.upkeep.checks.host import (
    check_files,
    check_settings,
    find_embedder_name,
    find_packages,
    find_snapshot_address,
)
from jacquard.service.upkeep.checks.index_folder import MOST_SCOPES, check_index
from jacquard.service.upkeep.checks.records import check_records, check_worlds, read_figures
from jacquard.service.upkeep.checks.shared_index import check_shared_index
from jacquard.service.upkeep.checks.snapshots import check_snapshots
from jacquard.service.upkeep.checks.tables import check_leases, check_revisions
from jacquard.service.upkeep.findings import Diagnosis, Finding, wrong
from jacquard.wiring.parts.embedder import find_language, open_embedder
from mnemosyne.core.errors import MnemosyneError, StoreError
from mnemosyne.protocols import Store, StoreUpkeep
from mnemosyne.schema.memory import world_scope
from mnemosyne.stores.locate import StoreLocation, locate_store
from mnemosyne.stores.open import store_at
from mnemosyne.stores.sql.schema import REVISION
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Doctor:
    """Health check of the store at the address `store`. `config` is the settings file (None: no file)."""

    store: str
    embedder: str | None = None
    """Name of the embedder (the model that makes vectors). None: the embedder in the settings of the service."""
    config: Path | None = None
    deep: bool = False
    """Also read every record, like `jacquard operate check`."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def examine(self) -> Diagnosis:
        """Run the checks and return their findings. Raises StoreUnavailableError if the address does not name a store."""
        location = await to_thread.run_sync(locate_store, self.store)
        known: dict[str, Any] = {"store": location.shown, "kind": location.kind, "reachable": False}
        known["packages"] = await to_thread.run_sync(find_packages)
        known["settings"], found = await to_thread.run_sync(check_settings, self.config)
        found += await to_thread.run_sync(check_files, location)
        revision, faults = await to_thread.run_sync(check_revisions, location)
        found += faults
        if revision is not None:
            known["revisions"] = (revision, REVISION)
            if revision == REVISION or location.kind not in ("sqlite", "postgresql"):
                known |= await self._look_at_store(location, found)
        return Diagnosis(**known, findings=tuple(found))

    async def examine_tenant(self, tenant: str) -> Diagnosis:
        """Check only the data of one tenant, and nothing of the host that serves it. Raises StoreUnavailableError if the address
        does not name a store.
        """
        location = await to_thread.run_sync(locate_store, self.store, tenant)
        content: dict[str, list[Any]] = {"tenants": [], "indexes": [], "shared": [], "snapshots": []}
        known: dict[str, Any] = {"store": location.shown, "kind": location.kind, "reachable": False}
        found: list[Finding] = []
        try:
            async with self._open(location, tenant) as store:
                known["reachable"] = True
                known["embedder"], faults = await self._find_serving(store)
                found += faults
                await self._look_at_tenant(tenant, store, location, known["embedder"], content, found)
        except StoreError as error:
            found.append(wrong("store_unavailable", str(error), "Tell the operator of the service."))
        return Diagnosis(**known, findings=tuple(found))

    async def _look_at_store(self, location: StoreLocation, found: list[Finding]) -> dict[str, Any]:
        """Return the known contents of a store, and add to `found`."""
        known: dict[str, Any] = {}
        content: dict[str, list[Any]] = {"tenants": [], "indexes": [], "shared": [], "snapshots": []}
        try:
            async with self._open(location, "default") as store:
                tenants = await store.tenants() if isinstance(store, StoreUpkeep) else ("default",)
                known["reachable"] = True
                known["leases"], faults = await check_leases(store, self.now())
                found += faults
            serving: dict[str, str] = {}
            for tenant in tenants or ("default",):
                here = await to_thread.run_sync(locate_store, self.store, tenant)
                async with self._open(here, tenant) as store:
                    serving[tenant], faults = await self._find_serving(store)
                    found += [each for each in faults if each not in found]
                    await self._look_at_tenant(tenant, store, here, serving[tenant], content, found)
            known |= {name: tuple(values) for name, values in content.items()}
            known["embedder"] = _describe_serving(serving)
        except StoreError as error:
            do = "See that the database runs and answers."
            found.append(wrong("store_unavailable", str(error), do))
        return known

    async def _look_at_tenant(
        self,
        tenant: str,
        store: Store,
        location: StoreLocation,
        serving: str,
        content: dict[str, list[Any]],
        found: list[Finding],
    ) -> None:
        content["tenants"].append(await read_figures(store, tenant))
        folder, faults = await check_index(store, location, tenant, serving)
        content["indexes"] += [] if folder is None else [folder]
        found += [*faults, *await check_worlds(store, location, tenant)]
        place = await to_thread.run_sync(find_snapshot_address, self.config)
        snapshots, faults = await check_snapshots(store, tenant, place, serving, deep=self.deep)
        content["snapshots"] += snapshots
        found += faults
        published = {world_scope(each.world_id) for each in snapshots}
        most = None if self.deep else MOST_SCOPES
        shared, faults = await check_shared_index(store, tenant, serving, published=published, most=most)
        content["shared"] += [] if shared is None else [shared]
        found += faults
        found += await check_records(store, tenant) if self.deep else []

    @asynccontextmanager
    async def _open(self, location: StoreLocation, tenant: str) -> AsyncIterator[Store]:
        store = await to_thread.run_sync(partial(store_at, location, tenant=tenant, create=False))
        try:
            yield store
        finally:
            await store.close()

    async def _find_serving(self, store: Store) -> tuple[str, list[Finding]]:
        """Return the name of the configured embedder of a tenant; '' if there is none."""
        try:
            configured = await to_thread.run_sync(find_embedder_name, self.config)
            name = self.embedder or configured
            language = await find_language(store, None) if name == "auto" else None
            found = await to_thread.run_sync(partial(open_embedder, name, language=language))
        except (MnemosyneError, ConfigError) as error:
            do = "Name another by --embedder, or install it."
            return "", [wrong("embedder", str(error), do)]
        return "" if found is None else found.name, []


def _describe_serving(serving: Mapping[str, str]) -> str:
    """Return the names of the embedders, each with its tenants if there are several."""
    tenants: dict[str, list[str]] = {}
    for tenant, name in serving.items():
        tenants.setdefault(name or "none: recall goes by words alone", []).append(tenant)
    return "; ".join(name if len(tenants) == 1 else f"{name} ({', '.join(each)})" for name, each in tenants.items())
