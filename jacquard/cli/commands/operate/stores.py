"""Writes a whole store into a backup file (`jacquard operate backup`), and restores it (`jacquard operate restore`)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from anyio import to_thread

from jacquard.cli.command_parts import DEFAULT_STORE, JsonOption, StoreOption, print_json, run, tell
from jacquard.cli.store_options import on_whole_store
from mnemosyne.stores.maintenance.copies import CopyResult, backup_store, restore_store

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]


def backup(
    file: FileArgument,
    store: StoreOption = DEFAULT_STORE,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="Only this tenant's. [all tenants]")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Write a store into one file.

    The store may be in use. The file contains no indexes, because they are built again from the store.
    """

    async def work() -> CopyResult:
        return await to_thread.run_sync(partial(backup_store, store, file, tenant))

    done = run(work)
    _tell(done, f"{file}: written from {done.store}", json_output)


@on_whole_store
def restore(
    file: FileArgument,
    store: StoreOption = DEFAULT_STORE,
    json_output: JsonOption = False,
) -> None:
    """Restore a backup into an empty store.

    The backup of a SQL store can be restored into SQLite or PostgreSQL.
    """

    async def work() -> CopyResult:
        return await to_thread.run_sync(restore_store, file, store)

    done = run(work)
    _tell(done, f"{file}: restored into {done.store}", json_output)


def _tell(done: CopyResult, what: str, json_output: bool) -> None:
    if json_output:
        print_json(done)
        return
    tell(f"{what}. " + ", ".join(f"{name}: {count}" for name, count in done.counts.items() if count))
