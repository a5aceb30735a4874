"""Looks at a store and what lies around it: what is where, what is stale or wrong, and what to do. It writes nothing.

Each part is looked at for itself: a database that is away takes nothing from what can be said of files, packages and settings.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from anyio import to_thread

from jacquard.config.in_force import settings_in_force
from jacquard.core.degradations import DegradationCode
from jacquard.core.errors import ConfigError
from jacquard.service.upkeep import tidy
from jacquard.service.upkeep.findings import (
    Diagnosis,
    Finding,
    IndexFolder,
    InForce,
    Severity,
    TenantFigures,
)
from jacquard.service.upkeep.housekeeper import LEASE
from jacquard.wiring.parts.embedder import find_language, open_embedder
from jacquard.wiring.world_notes import WORLDS_FILE, WorldNotes
from mnemosyne.core.codec import format_time
from mnemosyne.core.errors import DamagedRecordError, MnemosyneError, StoreError
from mnemosyne.documents.store_check import check_store
from mnemosyne.protocols import Store, StoreUpkeep
from mnemosyne.retrieval.engines.lance_files import list_tables, table_name
from mnemosyne.schema.memory import Chain, session_scope, world_scope
from mnemosyne.stores.locate import StoreLocation, locate_store
from mnemosyne.stores.maintenance.revision import read_revisions
from mnemosyne.stores.open import store_at
from mnemosyne.stores.sql.schema import REVISION

MOST_SCOPES = 200
"""So many scopes of a tenant's index are compared with the store; all of a large one would take long."""

PACKAGES = (
    "jacquard-context",
    "lancedb",
    "onnxruntime",
    "tokenizers",
    "torch",
    "sentence-transformers",
    "litellm",
    "psycopg",
    "fastapi",
    "uvicorn",
    "mcp",
    "alembic",
    "msgspec",
    "numpy",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Doctor:
    """Looks at the store of an address with the settings of a file. `deep`: every record is read, as `jacquard check` does."""

    store: str
    embedder: str = "auto"
    config: Path | None = None
    deep: bool = False
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _findings: list[Finding] = field(default_factory=list)

    async def examine(self) -> Diagnosis:
        """Return what was found; StoreUnavailableError for an address that names no store."""
        self._findings.clear()
        location = await to_thread.run_sync(locate_store, self.store)
        known: dict[str, Any] = {"store": location.shown, "kind": location.kind, "reachable": False}
        known["packages"] = await to_thread.run_sync(_find_packages)
        known["settings"] = await to_thread.run_sync(self._settings)
        await to_thread.run_sync(self._look_at_files, location)
        revisions = await to_thread.run_sync(self._revisions, location)
        if revisions is not None:
            known["revisions"] = (*revisions, REVISION)
            if revisions[0] >= REVISION or location.kind not in ("sqlite", "postgresql"):
                known |= await self._look_at_store(location)
        return Diagnosis(**known, findings=tuple(self._findings))

    def _note(self, code: str, severity: Severity, what: str, do: str) -> None:
        self._findings.append(Finding(code=code, severity=severity, what=what, do=do))

    def _settings(self) -> tuple[InForce, ...]:
        try:
            found = settings_in_force(self.config)
            return tuple(InForce(name=name, value=value, source=source) for name, value, source in found)
        except ConfigError as error:
            for line in str(error).splitlines():
                self._note("settings", Severity.WRONG, line, "Mend it; docs/settings.md has every setting.")
            return ()

    def _revisions(self, location: StoreLocation) -> tuple[int, int] | None:
        """Return the revisions of the tables, None where the store cannot be used."""
        if location.kind not in ("sqlite", "postgresql"):
            return (0, 0)
        try:
            revision, needed = read_revisions(location)
        except StoreError as error:
            self._note(
                "store_unavailable",
                Severity.WRONG,
                str(error),
                "See that the address is right and the database runs; what is said below needs no database.",
            )
            return None
        if revision == 0:
            self._note(
                "no_store", Severity.WRONG, f"{location.shown} has no tables yet.", "Start a session there first."
            )
        elif revision < REVISION:
            self._note(
                "migration_pending",
                Severity.STALE,
                f"The tables are of revision {revision}, this release makes {REVISION}.",
                "Take a backup, then run `jacquard migrate`; the first use does it too. Until then its content is not looked at.",
            )
        elif revision > REVISION:
            self._note(
                "newer_tables",
                Severity.STALE,
                f"The tables are of revision {revision}, this release knows {REVISION}; it can go on over them.",
                "Update this host when the others are.",
            )
        return revision, needed

    async def _look_at_store(self, location: StoreLocation) -> dict[str, Any]:
        found: dict[str, Any] = {}
        try:
            async with self._open(location, "default") as store:
                tenants = await store.tenants() if isinstance(store, StoreUpkeep) else ("default",)
                found["reachable"] = True
                found["leases"] = await self._leases(store)
                serving = await self._serving(store)
                found["embedder"] = serving or "none: recall goes by words alone"
            figures, indexes = [], []
            for tenant in tenants:
                here = await to_thread.run_sync(locate_store, self.store, tenant)
                async with self._open(here, tenant) as store:
                    figures.append(await self._figures(store, tenant))
                    folder = await self._look_at_index(store, here, tenant, serving)
                    indexes += [] if folder is None else [folder]
                    await self._look_at_worlds(store, here, tenant)
                    await self._look_at_records(store, tenant)
            found["tenants"], found["indexes"] = tuple(figures), tuple(indexes)
        except StoreError as error:
            self._note("store_unavailable", Severity.WRONG, str(error), "See that the database runs and answers.")
        return found

    @asynccontextmanager
    async def _open(self, location: StoreLocation, tenant: str) -> AsyncIterator[Store]:
        store = await to_thread.run_sync(partial(store_at, location, tenant=tenant, create=False))
        try:
            yield store
        finally:
            await store.close()

    async def _serving(self, store: Store) -> str:
        """Return the name of the configured embedder; empty where there is none."""
        try:
            language = await find_language(store, None) if self.embedder == "auto" else None
            found = await to_thread.run_sync(partial(open_embedder, self.embedder, language=language))
        except (MnemosyneError, ConfigError) as error:
            self._note("embedder", Severity.WRONG, str(error), "Name another by --embedder, or install it.")
            return ""
        return "" if found is None else found.name

    async def _leases(self, store: Store) -> dict[str, str]:
        if not isinstance(store, StoreUpkeep):
            return {}
        held = {}
        for lease in await store.leases():
            held[lease.name] = f"{lease.holder} until {format_time(lease.until)}"
            if lease.until < self.now():
                self._note(
                    "lease_over",
                    Severity.STALE,
                    f"The lease {lease.name!r} of {lease.holder} ended at {format_time(lease.until)} and was not given back: its "
                    "process died or hangs.",
                    "The next housekeeping takes over; see that it runs (`jacquard housekeeping`)."
                    if lease.name == LEASE
                    else "The next housekeeping on that host takes over.",
                )
        return held

    async def _figures(self, store: Store, tenant: str) -> TenantFigures:
        worlds = len(await store.worlds())
        if isinstance(store, StoreUpkeep):
            usage = await store.usage()
            return TenantFigures(
                tenant=tenant,
                sessions=usage.sessions,
                archived=usage.archived,
                entries=usage.entries,
                stored_bytes=usage.stored_bytes,
                worlds=worlds,
            )
        sessions = len(await store.sessions())
        return TenantFigures(tenant=tenant, sessions=sessions, archived=0, entries=0, stored_bytes=0, worlds=worlds)

    async def _look_at_index(
        self, store: Store, location: StoreLocation, tenant: str, serving: str
    ) -> IndexFolder | None:
        if location.index is None:
            return None
        try:
            tables = await to_thread.run_sync(list_tables, str(location.index))
            session_tables = await to_thread.run_sync(tidy.list_session_tables, location.index)
            size = await to_thread.run_sync(_size_of, location.index)
        except OSError as error:
            self._note(
                "index_unreadable",
                Severity.WRONG,
                f"{location.index} cannot be read: {error.strerror or error}.",
                "Grant this user the folder, or remove it: the next turn makes it anew.",
            )
            return None
        sessions = await store.sessions()
        left = await to_thread.run_sync(tidy.leftover_tables, session_tables, await tidy.open_sessions(store))
        if left:
            self._note(
                "index_leftovers",
                Severity.STALE,
                f"{location.index} has {len(left)} tables of sessions that are gone or archived.",
                "`jacquard housekeeping --once` removes them.",
            )
        await self._look_at_originals(location, sessions)
        scopes = [world_scope(name) for name in await store.worlds()] + [session_scope(name) for name in sessions]
        encoders = await self._compare(
            store, location.index, [each for each in scopes if table_name(each) in tables], serving
        )
        return IndexFolder(
            tenant=tenant,
            folder=str(location.index),
            tables=len(tables),
            file_bytes=size,
            leftovers=len(left),
            encoders=encoders,
        )

    async def _look_at_originals(self, location: StoreLocation, sessions: Iterable[str]) -> None:
        vault = tidy.vault_of(location)
        try:
            folders = await to_thread.run_sync(tidy.list_originals, vault)
        except OSError as error:
            self._note(
                "originals", Severity.WRONG, f"The originals cannot be read: {error}.", "Grant this user the folder."
            )
            return
        left = tidy.leftover_originals(folders, frozenset(sessions))
        if left and vault is not None:
            self._note(
                "originals_leftovers",
                Severity.WRONG,
                f"{vault.folder} has originals of {len(left)} sessions that are gone.",
                "`jacquard housekeeping --once` removes them.",
            )

    async def _compare(self, store: Store, folder: Path, scopes: list[str], serving: str) -> tuple[str, ...]:
        """Compare tables of the index with the store; return the embedders whose vectors they have."""
        if not scopes or find_spec("lancedb") is None:
            return ()
        index: Any = (await to_thread.run_sync(import_module, "mnemosyne.retrieval.engines.lance")).LanceIndex(
            str(folder)
        )
        encoders: dict[str, int] = {}
        behind: list[str] = []
        try:
            for scope in scopes[:MOST_SCOPES]:
                try:
                    marks = {(scope, chain): await index.watermark(scope, chain) for chain in Chain}
                    name = await index.encoder_of(scope)
                except MnemosyneError as error:
                    self._note(
                        DegradationCode.INDEX_DAMAGED.value,
                        Severity.WRONG,
                        str(error),
                        "`jacquard reindex` builds it again from the store.",
                    )
                    continue
                encoders[name] = encoders.get(name, 0) + 1
                if await store.chains_written_after(marks):
                    behind.append(scope)
        finally:
            await index.close()
        if behind:
            self._note(
                DegradationCode.INDEX_BEHIND.value,
                Severity.STALE,
                f"The index of {len(behind)} scopes lacks what was written last ({', '.join(behind[:3])} …).",
                "The next turn brings it in; `jacquard reindex` does it now.",
            )
        for name, number in encoders.items():
            if name and serving and name != serving:
                self._note(
                    DegradationCode.ENCODER_CHANGED.value,
                    Severity.STALE,
                    f"The vectors of {number} scopes are those of {name}; the configured model is {serving}.",
                    "`jacquard reindex` makes them with the configured model; until then the former one serves.",
                )
        return tuple(sorted(name for name in encoders if name))

    async def _look_at_worlds(self, store: Store, location: StoreLocation, tenant: str) -> None:
        notes = WorldNotes(file=(location.index or Path()).parent / WORLDS_FILE)
        for world_id, digest in (await store.worlds()).items():
            try:
                noted = await to_thread.run_sync(notes.find, world_id)
                pack = await store.pack(world_id, digest) if digest else None
            except MnemosyneError as error:
                self._note(
                    "world_pack", Severity.WRONG, str(error), "Mend the pack, or name its folder by --world DIR."
                )
                continue
            if digest and pack is None:
                self._note(
                    "pack_missing",
                    Severity.WRONG,
                    f"The store has no pack for the present version of world {world_id!r} of tenant {tenant!r}.",
                    "Name its folder once: `jacquard weave --world DIR …`.",
                )
            if noted.world is not None and noted.world.digest != digest:
                self._note(
                    "pack_differs",
                    Severity.STALE,
                    f"The pack of world {world_id!r} in {noted.folder} is not the one in the store.",
                    "The next command with --world brings it in.",
                )
            elif noted.reason:
                self._note(
                    "pack_folder",
                    Severity.STALE,
                    f"World {world_id!r}: {noted.reason}.",
                    "Name its folder by --world DIR.",
                )

    async def _look_at_records(self, store: Store, tenant: str) -> None:
        if isinstance(store, StoreUpkeep):
            for session_id in sorted(await store.archived_ids()) if self.deep else ():
                try:
                    await store.check_archive(session_id)
                except DamagedRecordError as error:
                    self._note("archive_damaged", Severity.WRONG, str(error), "Restore the store from a backup.")
        if not self.deep:
            return
        for note in (await check_store(store)).damage:
            self._note(
                DegradationCode.RECORD_DAMAGED.value,
                Severity.WRONG,
                f"Tenant {tenant!r}: {note.sentence}",
                "`jacquard check` says more.",
            )

    def _look_at_files(self, location: StoreLocation) -> None:
        """See that this user may use the files and folders of a store."""
        for path in (location.database, location.index, None if location.index is None else location.index.parent):
            if path is None or not path.exists():
                continue
            needed = os.R_OK | os.W_OK | (os.X_OK if path.is_dir() else 0)
            if not os.access(path, needed):
                self._note(
                    "permissions",
                    Severity.WRONG,
                    f"This user may not read and write {path}.",
                    "Grant it, or run as the owner.",
                )
            elif path.stat().st_mode & 0o077:
                self._note(
                    "open_to_others",
                    Severity.STALE,
                    f"{path} is open to other users of this machine.",
                    f"chmod go-rwx {path}",
                )


def _find_packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


def _size_of(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file()) if folder.is_dir() else 0
