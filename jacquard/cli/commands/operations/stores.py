"""`backup`, `restore`: whole stores."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from anyio import to_thread

from jacquard.cli.shared import DEFAULT_STORE, JsonOption, StoreOption, print_json, run, show
from mnemosyne.stores.maintenance.copies import CopyResult, backup_store, restore_store

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]


<<<<<<< HEAD
=======
def migrate(
    place: Annotated[
        str | None,
        typer.Argument(metavar="[ADDRESS]", help="A store, or the backup of one in SQL. [the store of the settings]"),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    tenant: Annotated[
        list[str] | None, typer.Option("--tenant", metavar="NAME", help="A tenant in the folder of a file store.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Convert a store of an earlier release to the form that this one reads and writes."""

    async def work() -> Migration:
        return await to_thread.run_sync(migrate_store, place or store, tenant or ())

    done = run(work)
    if json_output:
        print_json(done)
    elif done.before == done.after:
        show(f"{done.shown}: revision {done.after} already; nothing was done.")
    else:
        show(f"{done.shown}: from revision {done.before} to {done.after}.")
        for each in done.changes:
            show(f"  {each}")
    for each in done.left:
        say(each, "yellow")


>>>>>>> 8fe7839d (One engine of store rules: memory is SQLite in memory, and a file store keeps journals of row writes that the SQL rules run on)
def backup(
    file: FileArgument,
    store: StoreOption = DEFAULT_STORE,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="Only this tenant's. [all tenants]")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Write a store into one file, while it may be in use; without indexes, which are built again."""

    async def work() -> CopyResult:
        return await to_thread.run_sync(partial(backup_store, store, file, tenant))

    done = run(work)
    _tell(done, f"{file}: written from {done.store}", json_output)


def restore(
    file: FileArgument,
    store: StoreOption = DEFAULT_STORE,
    json_output: JsonOption = False,
) -> None:
    """Write a backup into an empty store; one of a SQL store into SQLite or PostgreSQL."""

    async def work() -> CopyResult:
        return await to_thread.run_sync(restore_store, file, store)

    done = run(work)
    _tell(done, f"{file}: restored into {done.store}", json_output)


def _tell(done: CopyResult, what: str, json_output: bool) -> None:
    if json_output:
        print_json(done)
        return
    show(f"{what}. " + ", ".join(f"{name}: {count}" for name, count in done.counts.items() if count))
