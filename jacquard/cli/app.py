"""Defines the `jacquard` command: its four groups, and the module of each command.

The module of a command is imported only when the command runs. Therefore `jacquard --help` loads neither an engine nor
a store.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from jacquard.cli.help import HelpContext, prepare_help, translate_usage_errors
from jacquard.cli.language import LanguageOption, add_language_option, speak, speaking, take_language
from mnemosyne.values import dataclass

DISTRIBUTION = "jacquard-context"
"""Name of the package on a package index."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandGroup:
    """Group of commands that `jacquard --help` lists."""

    summary: str
    """Sentence that the help shows for the group."""
    commands: Mapping[str, str]
    """Commands in the order of the help. Each name leads to the command's function or `Typer`, written as `MODULE:NAME`."""


_COMMANDS = "jacquard.cli.commands"
_VERBS = f"{_COMMANDS}.memory.verbs"

GROUPS: Mapping[str, CommandGroup] = {
    "play": CommandGroup(
        summary="Play sessions: prepare turns, commit replies, go back, see why.",
        commands={
            "weave": f"{_COMMANDS}.play.turns:weave",
            "commit": f"{_COMMANDS}.play.turns:commit",
            "action": f"{_COMMANDS}.play.turns:action",
            "explain": f"{_COMMANDS}.play.explain:explain",
            "state": f"{_COMMANDS}.play.sessions:state",
            "history": f"{_COMMANDS}.play.sessions:history",
            "fork": f"{_COMMANDS}.play.sessions:fork",
            "switch": f"{_COMMANDS}.play.sessions:switch",
            "sessions": f"{_COMMANDS}.play.sessions:sessions",
        },
    ),
    "author": CommandGroup(
        summary="Write worlds: packs and templates, checked and tested.",
        commands={
            "init": f"{_COMMANDS}.author.packs:init",
            "validate": f"{_COMMANDS}.author.packs:validate",
            "template": f"{_COMMANDS}.author.templates:template",
            "replay": f"{_COMMANDS}.author.replay:replay",
            "schema": f"{_COMMANDS}.operate.documents:schema",
        },
    ),
    "memory": CommandGroup(
        summary="See, edit, import and erase what is remembered.",
        commands={
            "search": f"{_VERBS}:search",
            "show": f"{_VERBS}:show_memory",
            "facts": f"{_VERBS}:facts",
            "remember": f"{_VERBS}:remember",
            "edit": f"{_VERBS}:edit",
            "supersede": f"{_VERBS}:supersede",
            "pin": f"{_VERBS}:pin",
            "unpin": f"{_VERBS}:unpin",
            "undo": f"{_VERBS}:undo",
            "forget": f"{_VERBS}:forget",
            "proposals": f"{_VERBS}:proposals",
            "accept": f"{_VERBS}:accept",
            "reject": f"{_VERBS}:reject",
            "log": f"{_VERBS}:log",
            "lore": f"{_COMMANDS}.memory.lore:lore",
            "evidence": f"{_COMMANDS}.memory.evidence:evidence",
            "source": f"{_COMMANDS}.operate.documents:source",
            "consolidate": f"{_COMMANDS}.memory.evidence:consolidate",
            "import": f"{_COMMANDS}.memory.files:import_",
            "export": f"{_COMMANDS}.memory.files:export",
            "erase": f"{_COMMANDS}.memory.erase:erase",
        },
    ),
    "operate": CommandGroup(
        summary="Run services and look after stores: serve, doctor, backup.",
        commands={
            "serve": f"{_COMMANDS}.operate.service:serve",
            "studio": f"{_COMMANDS}.operate.service:studio",
            "mcp": f"{_COMMANDS}.operate.service:mcp",
            "tokens": f"{_COMMANDS}.operate.service:tokens",
            "doctor": f"{_COMMANDS}.operate.doctor:doctor",
            "check": f"{_COMMANDS}.operate.index:check",
            "reindex": f"{_COMMANDS}.operate.index:reindex",
            "backup": f"{_COMMANDS}.operate.stores:backup",
            "restore": f"{_COMMANDS}.operate.stores:restore",
            "migrate": f"{_COMMANDS}.operate.migrate:migrate",
            "doc": f"{_COMMANDS}.operate.documents:doc",
            "archive": f"{_COMMANDS}.operate.housekeeping:archive",
            "housekeeping": f"{_COMMANDS}.operate.housekeeping:housekeeping",
            "sweep": f"{_COMMANDS}.memory.erase:sweep",
            "snapshot": f"{_COMMANDS}.operate.snapshots:snapshot",
            "embedder": f"{_COMMANDS}.operate.parts:embedder",
            "plugins": f"{_COMMANDS}.operate.parts:plugins",
        },
    ),
}

_GROUP_OF = {name: group for group, each in GROUPS.items() for name in each.commands}

SHORT_NAMES = ("studio",)
"""Commands that are named without their group too."""

FORMER_NAMES = frozenset(
    name for each in GROUPS.values() for name, place in each.commands.items() if not place.startswith(_VERBS)
).difference(SHORT_NAMES)
"""Commands that may still be called without their group (`jacquard weave`), until the release after 0.1.0."""


class _Commands(TyperGroup):
    """The commands of one group."""

    context_class = HelpContext

    def list_commands(self, ctx: Any) -> list[str]:
        return [*GROUPS[str(self.name)].commands]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _load(cmd_name) if _GROUP_OF.get(cmd_name) == self.name else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        _refuse_unknown(self, ctx, args[0])
        return super().resolve_command(ctx, args)


class _Groups(TyperGroup):
    """The four groups. Former names are not listed."""

    context_class = HelpContext

    def main(self, args: Sequence[str] | None = None, *others: Any, **options: Any) -> Any:
        """Run the command line. `--lang` is read first, so that help and faults are in its language."""
        language, words = take_language(sys.argv[1:] if args is None else args)
        with speaking(language):
            return super().main(words, *others, **options)

    def make_context(self, *args: Any, **options: Any) -> Any:
        with translate_usage_errors():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with translate_usage_errors():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        return [*GROUPS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in GROUPS:
            return _Commands(name=cmd_name, help=GROUPS[cmd_name].summary, no_args_is_help=True, rich_markup_mode=None)
        return _load(cmd_name) if cmd_name in (*FORMER_NAMES, *SHORT_NAMES) else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        _refuse_unknown(self, ctx, name)
        if name in FORMER_NAMES and "--json" not in args and not ctx.resilient_parsing:
            told = f"`jacquard {name}` is now `{_full_name(name)}`; the former name goes with the next release."
            typer.echo(speak(told), err=True)
        return super().resolve_command(ctx, args)


def _refuse_unknown(group: TyperGroup, ctx: Any, name: str) -> None:
    """Fail with the nearest name of any group if `group` has no such command."""
    if group.get_command(ctx, name) is not None or ctx.resilient_parsing or name.startswith("-"):
        return
    nearest = get_close_matches(name.lower(), [*GROUPS, *_GROUP_OF], n=1)
    ctx.fail(f"There is no command '{name}'." + "".join(f" Did you mean `{_full_name(each)}`?" for each in nearest))


def _full_name(name: str) -> str:
    """Return the full command line of a command or a group."""
    return f"jacquard {_GROUP_OF[name]} {name}" if name in _GROUP_OF else f"jacquard {name}"


@functools.cache
def _load(name: str) -> Any:
    # This loads what commands share.
    from jacquard.cli.store_options import add_store_options

    module, _, attribute = GROUPS[_GROUP_OF[name]].commands[name].partition(":")
    found = getattr(import_module(module), attribute)
    app = typer.Typer(rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name)(found)
    add_store_options(app)
    add_language_option(app)
    command = get_group(app).commands[name]
    prepare_help(command)
    return command


app = typer.Typer(
    name="jacquard",
    cls=_Groups,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=(
        "Prepares, for every turn of a game or narrative agent, the exact prompt its model will see: a deterministic "
        "skeleton, a few chosen memories, one budget, and a receipt that says why each line is there.\n\n"
        "Begin: jacquard author init my_world, then jacquard play weave --world my_world --session s1 --input 'Hello'. "
        "Commit the model's reply with jacquard play commit, and ask jacquard play explain why a memory was chosen. "
        "To see it all in the browser: jacquard studio."
    ),
)


def _print_version(wanted: bool) -> None:
    if wanted:
        # Loaded here, because it takes as long as the rest of the help.
        typer.echo(f"jacquard {import_module('importlib.metadata').version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
    lang: LanguageOption = None,
) -> None:
    """Options of the command itself; the text of its help is the one that `typer.Typer` is given."""
