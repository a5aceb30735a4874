"""Archives and erases idle sessions, for the commands `jacquard operate housekeeping` and `jacquard operate archive`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import anyio
import typer

from jacquard.cli.command_parts import (
    DEFAULT_STORE,
    ConfigOption,
    JsonOption,
    StoreOption,
    fail,
    open_store,
    print_json,
    run,
    say,
    tell,
)
from jacquard.cli.store_options import on_whole_store
from jacquard.config.service import ServiceSettings, load_service_settings
from jacquard.core.errors import ConfigError
from jacquard.service.upkeep.housekeeper import Housekeeper, HousekeepingPass
from mnemosyne.core.codec import format_time
from mnemosyne.protocols import ArchivedSession


@on_whole_store
def housekeeping(
    once: Annotated[bool, typer.Option("--once", help="Make one pass and end. [go on until stopped]")] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Look at all that hosts share, not at `sessions_a_pass` of it.")
    ] = False,
    store: StoreOption = DEFAULT_STORE,
    config: ConfigOption = None,
    json_output: JsonOption = False,
) -> None:
    """Archive and erase idle sessions, and delete leftovers.

    The section `service` of the settings sets the ages. Any number of hosts may run this command. A lease in the store
    lets one host work at a time; if this host dies, another one takes over.
    """
    settings = _load(config, store)

    async def work() -> HousekeepingPass:
        return await Housekeeper(settings).run_once(deep=deep)

    async def work_on() -> None:
        keeper = Housekeeper(settings)
        while True:
            _tell(await keeper.run_once(deep=deep), json_output=json_output)
            await anyio.sleep(settings.housekeeping.every_seconds)

    if not once:
        run(work_on)
        return
    done = run(work)
    _tell(done, json_output=json_output)
    if done.faults:
        raise typer.Exit(1)


def archive(
    session: Annotated[
        str | None, typer.Option("--session", "-s", metavar="ID", help="The session. [list what is archived]")
    ] = None,
    reopen: Annotated[bool, typer.Option("--open", help="Open it again, as its next turn would.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="List at most so many.")] = 50,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Archive a session, or list the archived sessions.

    Archiving packs the rows of a session and drops its index. The session's next turn opens it again.
    """
    if reopen and session is None:
        raise fail("--open needs --session.", code=2)

    async def work() -> list[ArchivedSession]:
        async with open_store(store, embedder="none") as runtime:
            if session is None:
                return list(await runtime.archived_sessions(limit=limit))
            if reopen:
                await runtime.open_archived(session)
                return []
            return [await runtime.archive_session(session)]

    found = run(work)
    if as_json:
        print_json(found)
        return
    for each in found:
        tell(_sentence(each))
    if reopen:
        tell(f"{session}: open.")
    elif not found:
        say("No session is archived.")


def _load(config: Path | None, store: str) -> ServiceSettings:
    try:
        return load_service_settings(config, options={"store": store})
    except ConfigError as error:
        raise fail(str(error), code=2) from error


def _tell(done: HousekeepingPass, *, json_output: bool) -> None:
    if json_output:
        print_json(done)
        return
    counts = ", ".join(f"{name}: {count}" for name, count in done.counts.items() if count)
    if done.holder:
        tell(f"{done.holder} does it; on this host: {counts or 'nothing to do'}.")
    else:
        tell(counts or "Nothing to do.")
    for fault in done.faults:
        say(fault, "yellow")


def _sentence(found: ArchivedSession) -> str:
    return (
        f"{found.session_id} · last turn {format_time(found.active_at)} · archived {format_time(found.archived_at)} · "
        f"{found.rows} rows, {found.raw_bytes:,} bytes in {found.packed_bytes:,}"
    )
