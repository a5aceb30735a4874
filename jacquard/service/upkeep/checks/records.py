"""Health checks of one tenant of a store: counts of its data, a comparison of its worlds with their folders, and a check of
every stored record.
"""

from __future__ import annotations

from pathlib import Path

from anyio import to_thread

from jacquard.core.degradations import DegradationCode
from jacquard.core.errors import ConfigError
from jacquard.service.upkeep.findings import Finding, TenantFigures, stale, wrong
from jacquard.wiring.world_notes import WORLDS_FILE, WorldNotes
from mnemosyne.core.errors import DamagedRecordError, MnemosyneError
from mnemosyne.documents.store_check import check_store, lacks_pack
from mnemosyne.protocols import Store, StoreUpkeep
from mnemosyne.stores.locate import StoreLocation
from mnemosyne.world import load_world


async def read_figures(store: Store, tenant: str) -> TenantFigures:
    """Return the figures of a tenant. A store that cannot count gives 0 for archived sessions, entries and bytes."""
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


async def check_worlds(store: Store, location: StoreLocation, tenant: str) -> list[Finding]:
    """Compare the packs (authored content) of a tenant's worlds in the store with the folders of authors on this host. Return the
    findings.

    `location` is the location of the store. A file next to its index on this host notes the folder of each world.
    """
    notes = WorldNotes(file=(location.index or Path()).parent / WORLDS_FILE)
    found = []
    for world_id, digest in (await store.worlds()).items():
        try:
            folder = await to_thread.run_sync(notes.find_folder, world_id)
            authored = None if folder is None else await to_thread.run_sync(load_world, folder)
            is_missing = await lacks_pack(store, world_id, digest)
        except (MnemosyneError, ConfigError) as error:
            do = "Mend the pack, or name its folder by --world DIR."
            found.append(wrong("world_pack", str(error), do))
            continue
        if is_missing:
            found.append(
                wrong(
                    "pack_missing",
                    f"The store has no pack for the present version of world {world_id!r} of tenant {tenant!r}.",
                    "Name its folder once: `jacquard play weave --world DIR …`.",
                )
            )
        if authored is not None and (authored.world_id, authored.digest) != (world_id, digest):
            found.append(
                stale(
                    "pack_differs",
                    f"The pack of world {world_id!r} in {folder} is not the one in the store.",
                    "The next command with --world brings it in.",
                )
            )
    return found


async def check_records(store: Store, tenant: str) -> list[Finding]:
    """Read every archive and every record of a tenant. Return a finding for each damaged archive or record."""
    found = []
    if isinstance(store, StoreUpkeep):
        for session_id in sorted(await store.archived_ids()):
            try:
                await store.check_archive(session_id)
            except DamagedRecordError as error:
                do = "Restore the store from a backup."
                found.append(wrong("archive_damaged", str(error), do))
    for note in (await check_store(store)).damage:
        found.append(
            wrong(
                DegradationCode.RECORD_DAMAGED.value,
                f"Tenant {tenant!r}: {note.sentence}",
                "`jacquard operate check` says more.",
            )
        )
    return found
