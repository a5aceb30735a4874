"""The `jacquard` command: every command is registered here and lives in a module of its own kind."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from jacquard.cli.commands import (
    documents,
    erase,
    explain,
    files,
    index,
    parts,
    replay,
    sessions,
    turns,
)
from jacquard.cli.commands.authoring import packs, templates
from jacquard.cli.commands.memory import evidence, lore, verbs
from jacquard.cli.commands.operations import service, stores
from jacquard.cli.tenant_option import add_tenant_option

DISTRIBUTION = "jacquard-context"
"""The name under which the package is installed."""

app = typer.Typer(
    name="jacquard",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=(
        "Prepares, for every turn of a game or narrative agent, the exact prompt its model will see: a deterministic skeleton, "
        "a few chosen memories, one budget, and a receipt that says why each line is there.\n\n"
        "Begin: jacquard init my_world, then jacquard weave --world my_world --session s1 --input 'Hello'. "
        "Commit the model's reply with jacquard commit, and ask jacquard explain why a memory was chosen."
    ),
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"jacquard {version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Options of the command itself; the text of its help is the one that `typer.Typer` is given."""


for command in (
    packs.init,
    packs.validate,
    turns.weave,
    turns.commit,
    turns.action,
    sessions.sessions,
    sessions.state,
    sessions.history,
    sessions.fork,
    sessions.switch,
    explain.explain,
    replay.replay,
    documents.schema,
    documents.source,
    parts.plugins,
):
    app.command()(command)
app.command("import")(files.import_)
app.command()(files.export)
app.command()(index.reindex)
app.command()(index.check)
app.command()(erase.erase)
app.command()(erase.sweep)
app.command()(evidence.consolidate)
app.add_typer(documents.doc)
app.add_typer(parts.embedder)
app.add_typer(evidence.evidence)
app.add_typer(lore.lore)
app.add_typer(verbs.memory)
app.add_typer(templates.template)
add_tenant_option(app)
app.command()(service.serve)
app.command()(service.mcp)
app.command()(stores.migrate)
app.command()(stores.backup)
app.command()(stores.restore)
app.add_typer(service.tokens, name="tokens")


def main() -> None:
    """Run the command line."""
    app()
