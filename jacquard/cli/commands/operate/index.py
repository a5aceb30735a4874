"""Restores the search index from the store, and finds damage in a store: `jacquard operate reindex` and `check`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from jacquard.cli.command_parts import (
    DEFAULT_STORE,
    EmbedderOption,
    JsonOption,
    StoreOption,
    chosen_tenant,
    err,
    fail,
    open_store,
    print_json,
    run,
    say,
    tell,
)
from jacquard.cli.commands.operate.worker_options import (
    AddressOption,
    EngineOption,
    WorkersOption,
    embedding_workers,
)
from jacquard.cli.progress import indexing
from jacquard.wiring.runtime import Runtime
from mnemosyne.core.codec import to_plain
from mnemosyne.documents.store_check import check_store
from mnemosyne.protocols import StoreUpkeep
from mnemosyne.retrieval.recall.indexing.rebuild import RebuildResult
from mnemosyne.schema.memory import is_profile_session, session_scope, world_scope
from mnemosyne.stores.locate import locate_store
from mnemosyne.stores.open import store_at

_STEPS = 10


class ReindexTarget(StrEnum):
    """Words that `reindex` takes as its argument. One session or one world is named by an option instead."""

    ALL = "all"


def reindex(
    what: Annotated[
        ReindexTarget | None,
        typer.Argument(metavar="[all]", help="Every session and every world of the store (as without any option)."),
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", metavar="ID", help="One session, with its world.")
    ] = None,
    world: Annotated[
        Path | None, typer.Option("--world", "-w", metavar="DIR", help="The lore of one world pack.")
    ] = None,
    anew: Annotated[bool, typer.Option("--anew", help="Build the index again even where it seems intact.")] = False,
    store: StoreOption = DEFAULT_STORE,
    embedder: EmbedderOption = "auto",
    engine: EngineOption = None,
    workers: WorkersOption = None,
    address: AddressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Restore the search index from the store.

    Intact parts are kept, missing ones are added, and damaged ones are built again. Sessions and turns are only in the
    store, so none of them can be lost. After an interruption the same command continues.
    """
    if sum(each is not None for each in (what, session, world)) > 1:
        raise typer.BadParameter("choose one of: all, --session, --world")
    bulk = embedding_workers(engine, workers, address)

    async def work() -> None:
        async with open_store(store, world=world, embedder=embedder, workers=bulk) as runtime:
            scopes = await _scopes(runtime, session, only_world=world is not None)
            done = []
            for scope in scopes:
                with _progress(scope) as report:
                    done.append(await runtime.retriever.rebuild(scope, force=anew, progress=report))
                if not as_json:
                    tell(_sentence(done[-1]))
        if as_json:
            print_json({"scopes": [to_plain(each) for each in done]})
        faults = dict.fromkeys(each.fault for each in done if each.fault)
        if faults:
            raise fail("\n".join(faults))
        if not done and not as_json:
            tell("There is nothing to index: the store holds no session and no world.")

    run(work)


def check(store: StoreOption = DEFAULT_STORE, as_json: JsonOption = False) -> None:
    """Read everything in a store and name all damage.

    Damage is found in records, in files and in the indexes of a database. Nothing is written. If something is damaged,
    the exit code is 1; everything else can be used as before.
    """

    async def work() -> None:
        location = locate_store(store, chosen_tenant())
        opened = store_at(location, tenant=chosen_tenant(), create=False)
        try:
            found = await check_store(opened, lambda scope: say(f"{scope} …", "dim") if err.is_terminal else None)
        finally:
            await opened.close()
        if as_json:
            print_json({"ok": not found.damage, **to_plain(found)})
        else:
            for note in found.damage:
                tell(note.sentence)
            read = f"sessions: {found.sessions}, turns: {found.turns}, worlds: {found.worlds}"
            tell(f"{location.shown}: {read}; damaged records: {len(found.damage) or 'none'}")
        if found.damage:
            raise typer.Exit(1)

    run(work)


async def _scopes(runtime: Runtime, session: str | None, *, only_world: bool) -> list[str]:
    """Return the scopes that the options name. Raises SessionNotFoundError for a session that does not exist."""
    if only_world and runtime.world is not None:
        await runtime.import_world()
        return [world_scope(runtime.world.world_id)]
    store = runtime.store
    # An archived session has no index; its next turn makes one.
    archived = await store.archived_ids() if isinstance(store, StoreUpkeep) else frozenset()
    every = [name for name in await store.sessions() if name not in archived and not is_profile_session(name)]
    names = every if session is None else [session]
    worlds = {} if session is not None else dict.fromkeys(await runtime.store.worlds())
    for name in names:
        worlds.setdefault((await runtime.store.head(name)).world_id)
    return [*(world_scope(world_id) for world_id in worlds if world_id), *map(session_scope, names)]


@contextmanager
def _progress(scope: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback `(done, total)`: a bar on a terminal, else a line on standard error for each tenth."""
    if err.is_terminal:
        with indexing(scope) as bar:
            yield bar
        return
    last = -1

    def report(done: int, total: int) -> None:
        nonlocal last
        step = done * _STEPS // max(total, 1)
        if step != last:
            last = step
            say(f"{scope}: {done:,} of {total:,}")

    yield report


def _sentence(done: RebuildResult) -> str:
    if done.rebuilt:
        return f"{done.scope}: built again, {done.added:,} entries (what was there was damaged or not of this store)"
    changed = f"; new vectors in place of those of {done.former_encoder}" if done.former_encoder else ""
    return f"{done.scope}: {done.kept:,} entries were there, {done.added:,} added{changed}"
