"""Provides the options that commands on memory share, and opens a store for the memory verbs (edits of memory by hand)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from jacquard.cli.command_parts import open_store
from jacquard.wiring.verbs import MemoryVerbs

ViewerOption = Annotated[
    str | None, typer.Option("--viewer", metavar="NAME", help="See and edit what this character may know. [everything]")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Store nothing; show what would be stored, and what of it would be masked.")
]
AsOfTurnOption = Annotated[
    int | None, typer.Option("--as-of-turn", min=0, metavar="N", help="As it was after turn N of the branch. [now]")
]
AuthorOption = Annotated[str, typer.Option("--author", metavar="NAME", help="Who makes the edit; the log keeps it.")]


@asynccontextmanager
async def using_verbs(
    store: str,
    *,
    author: str = "host",
    viewer: str | None = None,
    embedder: str = "none",
) -> AsyncIterator[MemoryVerbs]:
    """Open the store `store` for one command, and yield its memory verbs.

    `author` is recorded with each edit. If `viewer` is given, only memories that this character may know are seen and
    edited.
    """
    async with open_store(store, embedder=embedder) as runtime:
        yield MemoryVerbs(runtime, author=author, viewer=viewer)
