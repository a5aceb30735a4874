"""Lists, adds and edits the lore of a world (`jacquard memory lore`), and compares two ways in which lore reaches a prompt."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from jacquard.authoring.lore_comparison import LoreComparison, Verdict, compare_lore
from jacquard.cli.command_parts import (
    DEFAULT_STORE,
    BranchOption,
    EmbedderOption,
    JsonOption,
    StoreOption,
    clean,
    fail,
    load_configuration,
    open_store,
    out,
    print_json,
    run,
    say,
    show,
    tell,
)
from jacquard.cli.commands.memory.options import AuthorOption, ViewerOption, using_verbs
from jacquard.cli.language import speak
from jacquard.cli.progress import indexing
from jacquard.config.input_limits import check_user_message
from mnemosyne.core import codec
from mnemosyne.schema.memory import LoreCategory, MemoryEntry

lore = typer.Typer(name="lore", no_args_is_help=True, help="The lore of worlds.")

WorldId = Annotated[str, typer.Argument(metavar="WORLD", help="The id of the world.")]


@lore.command("list")
def list_lore(
    world_id: WorldId,
    query: Annotated[
        str, typer.Argument(metavar="[WORDS]", help="Only entries whose title and text contain these words.")
    ] = "",
    viewer: ViewerOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """List the lore of a world, with the ids of its entries."""

    async def work() -> tuple[MemoryEntry, ...]:
        async with using_verbs(store, viewer=viewer) as verbs:
            return await verbs.lore(world_id, query)

    entries = run(work)
    if as_json:
        print_json(entries)
        return
    for entry in entries:
        _show_entry(entry)
    if not entries:
        say("No entry is found.")


@lore.command("add")
def add_lore(
    world_id: WorldId,
    text: Annotated[str, typer.Option("--text", metavar="TEXT", help="What the entry says.")],
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Its title.")] = "",
    keys: Annotated[list[str] | None, typer.Option("--key", metavar="WORD", help="A key word; more than once.")] = None,
    category: Annotated[
        LoreCategory, typer.Option("--category", metavar="NAME", help=f"{', '.join(LoreCategory)}.")
    ] = LoreCategory.ENCYCLOPEDIA,
    viewers: Annotated[
        list[str] | None, typer.Option("--known-to", metavar="NAME", help="Who may know it; more than once. [everyone]")
    ] = None,
    author: AuthorOption = "host",
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Add an entry to the lore of an imported world.

    Sessions of the world find the entry from their next turn on.
    """

    async def work() -> MemoryEntry:
        async with using_verbs(store, author=author) as verbs:
            return await verbs.add_lore(
                world_id, text, title=title, keys=tuple(keys or ()), category=category, viewers=tuple(viewers or ())
            )

    _print_entry(run(work), as_json=as_json)


@lore.command("edit")
def edit_lore(
    world_id: WorldId,
    entry_id: Annotated[str, typer.Argument(metavar="ENTRY", help="The id that `lore list` shows.")],
    text: Annotated[str | None, typer.Option("--text", metavar="TEXT", help="Another text.")] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Another title.")] = None,
    author: AuthorOption = "host",
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Change the text or the title of an entry of an imported world."""
    if text is None and title is None:
        raise fail("There is nothing to change; give --text, --title, or both.", code=2)

    async def work() -> MemoryEntry:
        async with using_verbs(store, author=author) as verbs:
            return await verbs.edit_lore(world_id, entry_id, text=text, title=title)

    _print_entry(run(work), as_json=as_json)


def _print_entry(entry: MemoryEntry, *, as_json: bool) -> None:
    if as_json:
        print_json(entry)
    else:
        _show_entry(entry)


def _show_entry(entry: MemoryEntry) -> None:
    known = f" · known to {', '.join(entry.viewers)}" if entry.viewers else ""
    tell(f"{entry.entry_id} · {entry.kind}{known}{f' · {entry.title}' if entry.title else ''}", "bold")
    show(entry.text)


@lore.command("compare")
def compare(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session whose next input it would be.")],
    text: Annotated[str, typer.Option("--input", "-i", metavar="TEXT", help="What the user would say.")],
    viewer: Annotated[str | None, typer.Option("--viewer", metavar="NAME", help="Who may read the memories.")] = None,
    branch: BranchOption = None,
    store: StoreOption = DEFAULT_STORE,
    embedder: EmbedderOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Compare the entries that SillyTavern's rules and our recall would choose for an input.

    Nothing is written to the session, and no model is called.
    """
    config = load_configuration({"viewer": viewer})

    async def work() -> None:
        async with open_store(store, embedder=embedder, config=config) as runtime:
            check_user_message(text, config.limits)
            await runtime.store.head(session)
            with indexing() as progress:
                await runtime.sync(session, progress)
            engine = runtime.engine
            found = await compare_lore(engine.parts, engine.worlds, config, session, text, branch)
        if as_json:
            print_json(codec.to_plain(found))
        else:
            _show_comparison(found)

    run(work)


def _show_comparison(found: LoreComparison) -> None:
    tell(f"session {found.session_id} · its turns use: {found.activation}", "bold")
    table = Table(box=None, pad_edge=False)
    for name in ("entry", "SillyTavern", "recall"):
        table.add_column(speak(name))
    for each in found.entries:
        name = f"{each.entry_id}  {each.title}" if each.title and each.title != each.entry_id else each.entry_id
        style = "bold yellow" if each.sillytavern.chosen != each.recall.chosen else ""
        table.add_row(Text(clean(name), style=style), _verdict_text(each.sillytavern), _verdict_text(each.recall))
    out.print(table)
    by_rules = sum(each.sillytavern.chosen for each in found.entries)
    by_recall = sum(each.recall.chosen for each in found.entries)
    tell(f"shown by SillyTavern's rules: {by_rules}; by our recall: {by_recall}; only by one: {len(found.differing)}")
    if found.others:
        tell(f"{found.others} other entries are considered by neither", "dim")


def _verdict_text(verdict: Verdict) -> Text:
    word = "yes" if verdict.chosen else "no"
    return Text(clean(speak(f"{word} ({verdict.code}): {verdict.reason}")), style="" if verdict.chosen else "dim")
