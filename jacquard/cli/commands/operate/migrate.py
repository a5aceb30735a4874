"""Converts stores and documents of earlier releases, for the command `jacquard operate migrate`."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from anyio import to_thread

from jacquard.cli.command_parts import DEFAULT_STORE, JsonOption, StoreOption, print_json, run, say, tell
from jacquard.cli.commands.operate import documents
from jacquard.cli.store_options import on_whole_store
from jacquard.migrate import Migration, migrate_store
from jacquard.wiring.world_notes import PACK_FILE
from mnemosyne.stores.sqlite.file import is_database
from mnemosyne.world import load_world


@on_whole_store
def migrate(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="[PLACE]",
            help="A store, the backup of one in SQL, a document, or the folder of a pack. [the store of the settings]",
        ),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where a document is written. [standard output]")
    ] = None,
    tenant: Annotated[
        list[str] | None, typer.Option("--tenant", metavar="NAME", help="A tenant in the folder of a file store.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Convert a store or a document of an earlier release to the current form.

    A store is converted completely or not at all; nobody else may use the store meanwhile. A document is not changed: its
    converted copy is written to --out, as by `doc migrate`.
    """
    if place is not None and os.path.isfile(place) and not is_database(Path(place)):  # noqa: PTH113 (it may be no path)
        documents.migrate(Path(place), out)
        return
    if place is not None and (Path(place) / PACK_FILE).is_file():
        world = run(partial(to_thread.run_sync, load_world, Path(place)))
        tell(f"{place}: the pack of world {world.world_id} has the present form; nothing was done.")
        return

    async def work() -> Migration:
        return await to_thread.run_sync(migrate_store, place or store, tenant or ())

    done = run(work)
    if json_output:
        print_json(done)
        return
    if done.before == done.after:
        tell(f"{done.shown}: revision {done.after} already; nothing was done.")
    else:
        tell(f"{done.shown}: from revision {done.before} to {done.after}.")
        for each in done.changes:
            tell(f"  {each}")
    for each in done.left:
        say(each, "yellow")
