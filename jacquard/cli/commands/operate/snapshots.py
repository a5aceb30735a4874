"""Publishes the index of a large world once for all hosts, and lists and deletes such snapshots (`jacquard operate snapshot`)."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from anyio import to_thread

from jacquard.cli.command_parts import (
    DEFAULT_STORE,
    ConfigOption,
    EmbedderOption,
    JsonOption,
    StoreOption,
    fail,
    load_configuration,
    open_store,
    print_json,
    run,
    tell,
)
from jacquard.cli.commands.operate.worker_options import (
    AddressOption,
    EngineOption,
    WorkersOption,
    embedding_workers,
)
from jacquard.cli.progress import indexing
from jacquard.cli.store_options import on_whole_store
from mnemosyne.core.errors import SnapshotDamagedError
from mnemosyne.retrieval.snapshots.manifest import Manifest
from mnemosyne.retrieval.snapshots.publish import (
    PublishedSnapshot,
    delete_snapshots,
    list_snapshots,
    publish_snapshot,
    verify_snapshot,
)
from mnemosyne.retrieval.snapshots.storage import open_storage
from mnemosyne.schema.memory import world_scope

snapshot = typer.Typer(
    name="snapshot",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Snapshots of the indexes of large worlds: publish one, list and delete what is published.",
)
WorldArgument = Annotated[
    str, typer.Argument(metavar="WORLD", help="The id of a world of the store, or a pack's folder.")
]
WorldIdArgument = Annotated[str, typer.Argument(metavar="WORLD", help="The id of a world.")]
PlaceOption = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="URL",
        help="Where snapshots lie: a folder, or s3://BUCKET/PREFIX, gs://… or abfss://… [`snapshots.address` of the settings]",
    ),
]
_PACK_FILE = "world.yaml"


@snapshot.command("publish")
@on_whole_store
def publish(
    world: WorldArgument,
    at: PlaceOption = None,
    keep: Annotated[
        int,
        typer.Option("--keep", min=0, help="Then delete all but so many of the world's snapshots. [0: delete none]"),
    ] = 0,
    store: StoreOption = DEFAULT_STORE,
    embedder: EmbedderOption = "auto",
    engine: EngineOption = None,
    workers: WorkersOption = None,
    address: AddressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Update the index of a world and publish a snapshot of it.

    Hosts whose settings name the place then fetch the snapshot. Hosts ignore the files of a publication that was stopped.
    """
    settings, bulk = load_configuration(), embedding_workers(engine, workers, address)
    place = _place(at, settings.snapshots.address)
    pack = Path(world) if (Path(world) / _PACK_FILE).is_file() else None

    async def work() -> None:
        storage = await to_thread.run_sync(open_storage, place)
        async with open_store(store, world=pack, embedder=embedder, config=settings, workers=bulk) as runtime:
            scope = world_scope(world if runtime.world is None else runtime.world.world_id)
            if runtime.world is not None:
                await runtime.import_world()
            with indexing(f"indexing {scope}") as progress:
                await runtime.retriever.sync(scope, progress)
            with indexing(f"publishing {scope}") as progress:
                made = await publish_snapshot(
                    runtime.store,
                    runtime.index,
                    storage,
                    scope,
                    encoder="" if runtime.embedder is None else runtime.embedder.name,
                    index_into=runtime.retriever.index_into,
                    at=datetime.now(UTC),
                    progress=progress,
                )
        gone = await to_thread.run_sync(partial(delete_snapshots, storage, scope, keep=keep)) if keep else ()
        if as_json:
            print_json({"published": _to_json(made), "deleted": list(gone)})
            return
        tell(f"{scope}: {made.snapshot_id}, {made.rows:,} entries, {made.size_bytes / 1e6:,.1f} MB in {storage.shown}")
        for each in gone:
            tell(f"deleted {each}", "dim")

    run(work)


@snapshot.command("list")
def list_(
    world: WorldIdArgument,
    at: PlaceOption = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read every file and compare it with its hash.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the published snapshots of a world, oldest first.

    Incomplete uploads are listed too. If a snapshot is damaged or incomplete, the exit code is 1.
    """
    place = _place(at, load_configuration(file=config).snapshots.address)

    async def work() -> None:
        storage = await to_thread.run_sync(open_storage, place)
        found = await to_thread.run_sync(list_snapshots, storage, world_scope(world))
        faults = {each.snapshot_id: each.fault for each in found if each.fault}
        for each in found if verify else ():
            if each.manifest is not None:
                try:
                    await to_thread.run_sync(verify_snapshot, storage, each.manifest)
                except SnapshotDamagedError as error:
                    faults[each.snapshot_id] = error.reason
        if as_json:
            print_json([_listed(each, faults.get(each.snapshot_id, "")) for each in found])
        if not found and not as_json:
            tell(f"Nothing is published of world {world!r} in {storage.shown}.")
        for each in () if as_json else found:
            tell(_line(each, faults.get(each.snapshot_id, "")), "red" if each.snapshot_id in faults else "")
        if faults:
            raise typer.Exit(1)

    run(work)


@snapshot.command("delete")
def delete(
    world: WorldIdArgument,
    at: PlaceOption = None,
    keep: Annotated[int, typer.Option("--keep", min=0, help="How many of the newest stay.")] = 1,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete the snapshots of a world except the newest.

    The files of incomplete uploads are deleted too. Hosts remove their copies when they next look for a snapshot. If an
    entry was removed from its world, older snapshots still contain its words until they are deleted.
    """
    place = _place(at, load_configuration(file=config).snapshots.address)

    async def work() -> None:
        storage = await to_thread.run_sync(open_storage, place)
        gone = await to_thread.run_sync(partial(delete_snapshots, storage, world_scope(world), keep=keep))
        if as_json:
            print_json({"deleted": list(gone)})
            return
        for each in gone:
            tell(f"deleted {each}")
        if not gone:
            tell("Nothing was deleted.")

    run(work)


def _place(at: str | None, configured: str) -> str:
    if not (at or configured):
        raise fail("Say where snapshots lie: --at URL, or snapshots.address in the settings.", code=2)
    return at or configured


def _to_json(manifest: Manifest) -> dict[str, Any]:
    return {
        "snapshot": manifest.snapshot_id,
        "scope": manifest.scope,
        "world_digest": manifest.world_digest,
        "encoder": manifest.encoder,
        "rows": manifest.rows,
        "size_bytes": manifest.size_bytes,
        "published_at": manifest.published_at,
    }


def _listed(each: PublishedSnapshot, fault: str) -> dict[str, Any]:
    whole = {"snapshot": each.snapshot_id} if each.manifest is None else _to_json(each.manifest)
    return {**whole, "fault": fault}


def _line(each: PublishedSnapshot, fault: str) -> str:
    if each.manifest is None or fault:
        return f"{each.snapshot_id}  {fault}"
    made = each.manifest
    return (
        f"{each.snapshot_id}  {made.rows:,} entries, {made.size_bytes / 1e6:,.1f} MB, {made.encoder or 'words alone'}"
    )
