"""The command line without its commands: its own options and help, which need neither an engine nor a store."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

DISTRIBUTION = "jacquard-context"
"""The name under which the package is installed."""

SUMMARIES = {
    "init": "Write a small commented world pack that validates and plays.",
    "validate": "Check a world pack and its templates; every fault is reported at once with file, line and key.",
    "weave": "Prepare one turn and print its prompt with the receipt.",
    "commit": "Commit the main model's reply: its text goes into the history, its ops change the state, all of them or none.",
    "action": "Apply a numerical action of the world and print its answer; no model is called.",
    "state": "Print the state of a session, at present or after any turn.",
    "history": "Print the newest turns on the path to the head, oldest first, and the branches.",
    "fork": "Open a new branch after a turn and make it the active one; the old branch stays as it is.",
    "switch": "Make another branch of a session the active one.",
    "explain": "Print the receipt of a turn: why each candidate and block is, or is not, in its prompt.",
    "replay": "Make recorded prompts again and compare.",
    "schema": (
        "Print a JSON Schema: of the session document, of the context package, of the files of a world "
        "pack, or of the settings."
    ),
    "source": "Print the whole content of a `source_uri` as JSON: an entry of memory, a turn or an evidence.",
    "plugins": "List the parts that are found by name: those that are built in, and those of installed plugins.",
    "import": (
        "Bring files of other programs into one world and session: cards, world info, chats, notes, "
        "memories; or a world pack, or a corpus."
    ),
    "export": "Write the lore of a session as SillyTavern's world info, its character as a card, or its conversation as a chat.",
    "reindex": "Restore the index from the store: intact parts are kept, missing ones are added, damaged ones are built again.",
    "check": "Read everything that a store holds and name all damage: records, files, and indexes of the database.",
    "erase": "Erase everywhere: store, index, receipts, recorded prompts, summaries, prefetched memories, originals.",
    "sweep": "Empty evidence whose time to live is over.",
    "consolidate": "Make memory from committed turns: a summary of each turn, events, narratives over many turns; then index them.",
    "serve": "Serve the engine over HTTP; settings of the service are the section `service` of the settings file.",
    "migrate": "Bring a store to the present revision, as its first use would.",
    "backup": "Write a store into one file, while it may be in use; without indexes, which are built again.",
    "restore": "Write a backup into an empty store; one of a SQL store into SQLite or PostgreSQL.",
    "doc": "Session documents (schema 1.0): check, export, import and migrate them.",
    "embedder": "Embedding models: export one for fast queries.",
    "evidence": "What a session knows besides its conversation.",
    "lore": "Lore that came from world info.",
    "template": "Write, check, preview and compare the templates of a pack.",
    "tokens": "Tokens of the service: who may call it, and for what.",
}
"""The commands and groups with the first sentence of the help of each, in the order in which they are listed."""


def new_app() -> typer.Typer:
    """Return the command line, without commands yet."""
    app = typer.Typer(
        name="jacquard",
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        help=(
            "Prepares, for every turn of a game or narrative agent, the exact prompt its model will see: a deterministic "
            "skeleton, a few chosen memories, one budget, and a receipt that says why each line is there.\n\n"
            "Begin: jacquard init my_world, then jacquard weave --world my_world --session s1 --input 'Hello'. "
            "Commit the model's reply with jacquard commit, and ask jacquard explain why a memory was chosen."
        ),
    )
    app.callback()(_options)
    return app


def overview() -> typer.Typer:
    """Return the command line with the names and summaries of its commands, for its help alone."""
    app = new_app()
    for name, summary in SUMMARIES.items():
        app.command(name, help=summary)(_do_nothing)
    return app


def _do_nothing() -> None:
    """Stand in the place of a command."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"jacquard {version(DISTRIBUTION)}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Options of the command itself; the text of its help is the one that `typer.Typer` is given."""
