"""Checks published snapshots (ready-made search indexes) of a tenant's worlds: reachable, complete and up to date."""

from __future__ import annotations

from anyio import to_thread

from jacquard.core.degradations import DegradationCode
from jacquard.service.upkeep.findings import Finding, PublishedWorld, stale, wrong
from mnemosyne.core.errors import SnapshotDamagedError, SnapshotStorageError
from mnemosyne.protocols import Store
from mnemosyne.retrieval.snapshots.manifest import Manifest
from mnemosyne.retrieval.snapshots.publish import PublishedSnapshot, list_snapshots, verify_snapshot
from mnemosyne.retrieval.snapshots.storage import SnapshotStorage, open_storage
from mnemosyne.schema.memory import world_scope

_UNREACHABLE = (
    "See that the address is right, the place answers, and this host's credentials count. Meanwhile hosts search what they have "
    "fetched, else an index of their own."
)


async def check_snapshots(
    store: Store, tenant: str, address: str, serving: str, *, deep: bool
) -> tuple[list[PublishedWorld], list[Finding]]:
    """Check the snapshots of each world of a tenant. Return (snapshots, findings): the newest usable snapshot of each world,
    and the faults.

    Args:
        store: store of the tenant.
        tenant: id of the tenant.
        address: address of the snapshots ('': none).
        serving: name of the configured embedder ('': there is none).
        deep: read every file of the newest snapshot and compare it with its hash.
    """
    worlds = await store.worlds() if address else {}
    if not worlds:
        return [], []
    try:
        storage = await to_thread.run_sync(open_storage, address)
        published, found = [], []
        for world_id, digest in worlds.items():
            listed = await to_thread.run_sync(list_snapshots, storage, world_scope(world_id))
            found += _judge_faults(world_id, listed)
            newest = next((each.manifest for each in reversed(listed) if each.manifest is not None), None)
            if newest is None:
                continue
            published.append(
                PublishedWorld(
                    tenant=tenant,
                    world_id=world_id,
                    snapshot_id=newest.snapshot_id,
                    entries=newest.rows,
                    file_bytes=newest.size_bytes,
                    encoder=newest.encoder,
                )
            )
            found += _judge_newest(world_id, digest, newest, serving)
            found += await to_thread.run_sync(_verify, storage, world_id, newest) if deep else []
        return published, found
    except SnapshotStorageError as error:
        code = DegradationCode.SNAPSHOT_UNREACHABLE.value
        return [], [wrong(code, str(error), _UNREACHABLE)]


def _judge_faults(world_id: str, listed: tuple[PublishedSnapshot, ...]) -> list[Finding]:
    """Report snapshots that cannot be used; a usable later one replaces them."""
    found = []
    for each in listed:
        if each.is_torn:
            found.append(
                stale(
                    "snapshot_torn",
                    f"The snapshot {each.snapshot_id} of world {world_id!r} has no manifest: its upload is under way, or was "
                    "torn. Hosts pass it by.",
                    f"If nobody uploads it, publish again, then `jacquard operate snapshot delete {world_id} --keep 1`.",
                )
            )
        elif each.manifest is None:
            found.append(_damaged(world_id, f"The snapshot {each.snapshot_id} of world {world_id!r}: {each.fault}."))
    return found


def _judge_newest(world_id: str, digest: str, newest: Manifest, serving: str) -> list[Finding]:
    found = []
    if newest.world_digest != digest:
        found.append(
            stale(
                DegradationCode.SNAPSHOT_OLD.value,
                f"The newest snapshot of world {world_id!r}, {newest.snapshot_id}, is of another version than the store has.",
                f"`jacquard operate snapshot publish {world_id}`; until then each host adds what has changed.",
            )
        )
    if newest.encoder != serving:
        found.append(
            stale(
                DegradationCode.ENCODER_CHANGED.value,
                f"The newest snapshot of world {world_id!r} has {_vectors_of(newest.encoder)}; configured is "
                f"{serving or 'no model'}.",
                f"`jacquard operate snapshot publish {world_id}` with the configured model. Until then that of the snapshot serves "
                "where it is installed, else each host makes an index of its own.",
            )
        )
    return found


def _verify(storage: SnapshotStorage, world_id: str, newest: Manifest) -> list[Finding]:
    try:
        verify_snapshot(storage, newest)
    except SnapshotDamagedError as error:
        return [_damaged(world_id, str(error))]
    return []


def _damaged(world_id: str, what: str) -> Finding:
    return wrong(
        DegradationCode.SNAPSHOT_DAMAGED.value,
        what,
        f"`jacquard operate snapshot publish {world_id}`, then `jacquard operate snapshot delete {world_id} --keep 1`.",
    )


def _vectors_of(encoder: str) -> str:
    return f"vectors of {encoder}" if encoder else "no vectors"
