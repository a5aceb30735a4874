"""`consolidate`: makes memory from the turns that were played, between two sessions of play."""

from __future__ import annotations

from typing import Annotated

import typer

from jacquard.cli.progress import indexing
from jacquard.cli.shared import (
    DEFAULT_STORE,
    BranchOption,
    ConfigOption,
    EmbedderOption,
    JsonOption,
    SessionOption,
    StoreOption,
    load_configuration,
    open_store,
    print_json,
    run,
    say,
    show,
)
from mnemosyne.core import codec


def consolidate(
    session: SessionOption,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="The small model that writes, as litellm names it (`openai/…`)."),
    ] = None,
    api_base: Annotated[
        str | None, typer.Option("--api-base", metavar="URL", help="The address of the server that has the model.")
    ] = None,
    chapter_ends: Annotated[
        bool, typer.Option("--chapter-ends", help="A chapter ends with the newest turn: write its narrative now.")
    ] = False,
    branch: BranchOption = None,
    store: StoreOption = DEFAULT_STORE,
    config_file: ConfigOption = None,
    embedder: EmbedderOption = "none",
    as_json: JsonOption = False,
) -> None:
    """Make memory from committed turns: a summary of each turn, events, narratives over many turns; then index them.

    It can be stopped and called again at any time: nothing is made twice.
    """
    config = load_configuration(config_file, {"consolidation": {"model": model, "api_base": api_base}})

    async def work() -> None:
        async with open_store(store, embedder=embedder, config=config) as runtime:
            with indexing("turns") as progress:
                done = await runtime.engine.consolidate(
                    session, branch_id=branch, chapter_ends=chapter_ends, progress=progress
                )
            await runtime.sync(session)
        if as_json:
            print_json(codec.to_plain(done))
        else:
            show(
                f"Session {done.session_id}, branch {done.branch_id}: {done.summaries} turn summaries, {done.events} events, "
                f"{done.narratives} narratives are new; {done.left} turns are left."
            )
            for failure in done.failures:
                say(f"failed: {failure}", "yellow")
        if done.failures:
            raise typer.Exit(1)

    run(work)
