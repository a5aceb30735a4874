"""Lists and continues sessions, shows and edits their state, prints their history, and changes their branches."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from jacquard.cli.command_parts import (
    DEFAULT_STORE,
    BranchOption,
    EmbedderOption,
    JsonOption,
    SessionOption,
    StoreOption,
    clean,
    fail,
    open_store,
    out,
    print_json,
    run,
    say,
    show,
    tell,
)
from jacquard.cli.commands.memory.options import AsOfTurnOption, AuthorOption, ViewerOption, using_verbs
from jacquard.cli.show import show_tree
from jacquard.memory.story_facts import load_past_head
from jacquard.wiring.verbs import MemoryVerbs
from mnemosyne.core import codec
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import SessionHead

TurnOption = Annotated[str | None, typer.Option("--turn", "--at", metavar="ID", help="The turn (default: the newest).")]


class _SessionsGroup(TyperGroup):
    """The commands of sessions; without the name of one, sessions are listed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = not args or args[0] in self.commands or args[0] in self.get_help_option_names(ctx)
        return super().parse_args(ctx, args if named and args else ["list", *args])


sessions = typer.Typer(name="sessions", cls=_SessionsGroup, help="List sessions, or continue one in a new one.")


@sessions.command("list")
def list_sessions(
    query: Annotated[str, typer.Argument(metavar="[WORDS]", help="Only sessions whose id contains these words.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="At most so many.")] = 50,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """List sessions, with the world, the branch and the number of turns of each."""

    async def work() -> tuple[SessionHead, ...]:
        async with using_verbs(store) as verbs:
            return await verbs.sessions(query, limit=limit)

    found = run(work)
    if as_json:
        print_json(found)
        return
    for head in found:
        tell(f"{head.session_id} · world {head.world_id} · branch {head.branch_id} · {head.depth} turns")
    if not found:
        say("There is no such session." if query else "There is no session.")


@sessions.command("continue")
def continue_session(
    session: Annotated[str, typer.Argument(metavar="OLD", help="The session whose memories are taken along.")],
    new_session: Annotated[str, typer.Argument(metavar="NEW", help="The id of the session to start.")],
    memories: Annotated[
        list[str] | None,
        typer.Option("--memory", metavar="ID", help="A memory to take along, more than once. [all]"),
    ] = None,
    query: Annotated[
        str, typer.Option("--query", metavar="TEXT", help="Take along what a search for TEXT finds.")
    ] = "",
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=100, metavar="N", help="At most so many, with --query.")
    ] = 10,
    author: AuthorOption = "host",
    viewer: ViewerOption = None,
    store: StoreOption = DEFAULT_STORE,
    embedder: EmbedderOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Start a new session with the memories of an old one.

    The new session starts at the beginning of the world, and each of its prompts contains a summary of the old session.
    Each memory names its source, and is erased together with this source.
    """

    async def work() -> SessionHead:
        async with using_verbs(store, author=author, viewer=viewer, embedder=embedder if query else "none") as verbs:
            return await verbs.continue_session(
                session, new_session, memory_ids=memories or None, query=query, limit=limit
            )

    head = run(work)
    if as_json:
        print_json(codec.to_plain(head))
    else:
        tell(f"Session {head.session_id} of world {head.world_id} has the memories of {session}.")


def state(
    session: SessionOption,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="PATH=VALUE", help="Set a value, as hero.health=7 (JSON, else text); more than once."
        ),
    ] = None,
    author: AuthorOption = "host",
    turn: TurnOption = None,
    as_of_turn: AsOfTurnOption = None,
    branch: BranchOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Print the state of a session, now or after any turn.

    With --set, the state is changed first: either all given values are set or none. The change is stored as a turn
    without messages, on the active branch.
    """
    wanted = dict(_read_change(each) for each in changes or ())
    if wanted and not (turn is None and as_of_turn is None and branch is None):
        raise fail("--set changes the state as it is now; leave --turn, --as-of-turn and --branch out.", code=2)
    if turn is not None and as_of_turn is not None:
        raise fail("--turn names the turn by its id, --as-of-turn by its number; give one of them.", code=2)

    async def work() -> None:
        async with open_store(store, embedder="none") as runtime:
            if wanted:
                await MemoryVerbs(runtime, author=author).set_state(session, wanted)
            head = await load_past_head(runtime.store, session, branch, as_of_turn)
            tree = await runtime.store.state_at(session, turn or head.turn_id)
            if as_json:
                print_json(tree)
            else:
                show_tree(tree)

    run(work)


def history(
    session: SessionOption,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, metavar="TURNS", help="How many of the newest turns.")
    ] = 20,
    branch: BranchOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Print the newest turns of a branch, oldest first, and the names of all branches."""

    async def work() -> None:
        async with open_store(store, embedder="none") as runtime:
            turns = await runtime.store.turns(session, limit=limit, branch_id=branch)
            branches = await runtime.store.branches(session)
        if as_json:
            print_json(
                {"session_id": session, "branches": codec.to_plain(branches), "turns": [_turn_json(t) for t in turns]}
            )
            return
        for record in turns:
            out.rule(
                Text(clean(f"{record.turn_id} · depth {record.depth} · {record.kind.value}")), align="left", style="dim"
            )
            for message in record.messages:
                name = message.author.id if message.author else message.role.value
                show(f"{name}: {message.content}")
        names = [f"{head.branch_id} ({head.depth} turns)" for head in branches]
        tell("branches, active first: " + ", ".join(names), "dim")

    run(work)


def fork(
    session: SessionOption,
    turn: Annotated[
        str,
        typer.Option("--turn", "--at", metavar="ID", help="The last turn that both branches share (`start` = none)."),
    ],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The new branch.")],
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Open a new branch after a turn and make it the active one; the old branch stays unchanged."""

    async def work() -> None:
        async with open_store(store, embedder="none") as runtime:
            head = await runtime.store.fork(session, None if turn == "start" else turn, name)
        _print_head(session, head, as_json=as_json)

    run(work)


def switch(
    session: SessionOption,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The branch to go to.")],
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Make another branch of a session the active one."""

    async def work() -> None:
        async with open_store(store, embedder="none") as runtime:
            head = await runtime.store.switch(session, name)
        _print_head(session, head, as_json=as_json)

    run(work)


def _read_change(text: str) -> tuple[str, Any]:
    path, sign, value = text.partition("=")
    if not sign or not path.strip():
        raise fail(f"--set {text!r} has no path; write it as hero.health=7.", code=2)
    try:
        return path.strip(), json.loads(value)
    except ValueError:
        return path.strip(), value


def _print_head(session: str, head: SessionHead, *, as_json: bool) -> None:
    if as_json:
        print_json(codec.to_plain(head))
    else:
        tell(f"Branch {head.branch_id} of session {session} is active; it stands after {head.turn_id or 'nothing'}.")


def _turn_json(record: TurnRecord) -> dict[str, Any]:
    return {
        "turn_id": record.turn_id,
        "parent_id": record.parent_id,
        "branch_id": record.branch_id,
        "depth": record.depth,
        "kind": record.kind.value,
        "messages": codec.to_plain(record.messages),
        "ops": codec.to_plain(record.ops),
    }
