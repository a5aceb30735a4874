"""The command line without its commands: its own options and help, which need neither an engine nor a store."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

DISTRIBUTION = "jacquard-context"
"""The name under which the package is installed."""

SUMMARIES: dict[str, str] = json.loads(Path(__file__).with_name("overview.json").read_text(encoding="utf-8"))
"""The commands and groups with the first sentence of the help of each, in the order in which they are listed.

`python -m jacquard.cli.publish` writes the file from the commands.
"""


class _Overview(TyperGroup):
    """Commands that have a name and a summary, and cannot be run."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*SUMMARIES]

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand:
        return TyperCommand(cmd_name, help=SUMMARIES[cmd_name], rich_markup_mode=None)


def new_app(group: type[TyperGroup] = TyperGroup) -> typer.Typer:
    """Return the command line, without commands yet."""
    app = typer.Typer(
        name="jacquard",
        cls=group,
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
    return new_app(_Overview)


def _print_version(wanted: bool) -> None:
    if wanted:
        # Loaded here, because it takes as long as all else of the help.
        typer.echo(f"jacquard {import_module('importlib.metadata').version(DISTRIBUTION)}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Options of the command itself; the text of its help is the one that `typer.Typer` is given."""
