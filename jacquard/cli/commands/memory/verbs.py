"""Finds, edits and erases the memories of a session by hand, for the commands of `jacquard memory`.

Every edit is logged with its author and its time. Every edit except `forget` can be undone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from jacquard.cli.command_parts import (
    DEFAULT_STORE,
    BranchOption,
    EmbedderOption,
    JsonOption,
    SessionOption,
    StoreOption,
    print_json,
    read_input,
    run,
    say,
    show,
    tell,
)
from jacquard.cli.commands.memory.options import AsOfTurnOption, AuthorOption, DryRunOption, ViewerOption, using_verbs
from jacquard.memory.verbs.values import FoundMemory, Memory, MemoryAction, MemoryEdit
from jacquard.wiring.verbs import MemoryVerbs
from mnemosyne.core.codec import format_time
from mnemosyne.schema.memory import StoryFact

MemoryArgument = Annotated[str, typer.Argument(metavar="MEMORY", help="The id that `search` or `log` shows.")]
TextArgument = Annotated[str, typer.Argument(metavar="TEXT", help="The text (`-` reads standard input).")]


def search(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to search for.")],
    session: SessionOption,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, metavar="N", help="At most so many.")] = 10,
    as_of_turn: AsOfTurnOption = None,
    viewer: ViewerOption = None,
    store: StoreOption = DEFAULT_STORE,
    embedder: EmbedderOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Find memories in the same way as recall, best first, and print why each was found."""

    async def work() -> tuple[FoundMemory, ...]:
        async with using_verbs(store, viewer=viewer, embedder=embedder) as verbs:
            return await verbs.search(session, text, limit=limit, as_of_turn=as_of_turn)

    found = run(work)
    if as_json:
        print_json(found)
        return
    for each in found:
        told = [each.memory_id, each.kind, *(["pinned"] if each.pinned else []), *([each.title] if each.title else [])]
        show(" · ".join(told), "bold")
        show(each.text)
        why = [f"score {each.score:.2f}", *(f"{name} {value:.2f}" for name, value in each.signals.items())]
        tell(", ".join(why) + (f"; words: {', '.join(each.words)}" if each.words else ""), "dim")
    if not found:
        say("Nothing is found.")


def facts(
    session: SessionOption,
    query: Annotated[str, typer.Argument(metavar="WORDS", help="Only facts that contain these words.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, metavar="N", help="At most so many.")] = 50,
    as_of_turn: AsOfTurnOption = None,
    branch: BranchOption = None,
    viewer: ViewerOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """List the facts of the story, newest first, with the turns in which they are valid.

    These are values of the state that turns changed, and facts in memories. With --as-of-turn, only those that were valid then.
    """

    async def work() -> tuple[StoryFact, ...]:
        async with using_verbs(store, viewer=viewer) as verbs:
            return await verbs.facts(session, query, branch_id=branch, as_of_turn=as_of_turn, limit=limit)

    found = run(work)
    if as_json:
        print_json(found)
        return
    for each in found:
        show(" · ".join(filter(None, (each.subject, f"{each.attribute}: {each.value}", each.time))))
        since = f"Valid from turn {each.valid_from}"
        tell(f"{since} on." if each.valid_to is None else f"{since} to turn {each.valid_to}.", "dim")
    if not found:
        say("Nothing is found.")


def show_memory(
    memory_id: MemoryArgument,
    session: SessionOption,
    viewer: ViewerOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Print one memory."""

    async def work() -> Memory:
        async with using_verbs(store, viewer=viewer) as verbs:
            return await verbs.memory(session, memory_id)

    found = run(work)
    if as_json:
        print_json(found)
        return
    known = f" · known to {', '.join(found.viewers)}" if found.viewers else ""
    tell(f"{found.memory_id} · {found.kind} · trust {found.trust.value}{known}", "bold")
    show(found.text)


def remember(
    text: TextArgument,
    session: SessionOption,
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Its title.")] = "",
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="The same key stores the text once.")] = None,
    dry_run: DryRunOption = False,
    author: AuthorOption = "host",
    viewer: ViewerOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Store a text as a memory.

    Secrets in the text are masked. With --viewer, only that character knows the memory.
    """
    said = read_input() if text == "-" else text

    async def work() -> MemoryEdit:
        async with using_verbs(store, author=author, viewer=viewer) as verbs:
            return await verbs.remember(session, said, title=title, key=key, dry_run=dry_run)

    _print_edit(run(work), as_json=as_json)


def edit(
    memory_id: MemoryArgument,
    text: TextArgument,
    session: SessionOption,
    dry_run: DryRunOption = False,
    author: AuthorOption = "host",
    viewer: ViewerOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Correct the text of a memory.

    Recall then finds the new text, and no longer the old one.
    """
    said = read_input() if text == "-" else text

    async def work() -> MemoryEdit:
        async with using_verbs(store, author=author, viewer=viewer) as verbs:
            return await verbs.edit(session, memory_id, said, dry_run=dry_run)

    _print_edit(run(work), as_json=as_json)


def supersede(
    memory_id: MemoryArgument,
    session: SessionOption,
    text: Annotated[str, typer.Argument(metavar="[TEXT]", help="What holds now, if anything does.")] = "",
    dry_run: DryRunOption = False,
    author: AuthorOption = "host",
    viewer: ViewerOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Mark a memory as no longer true.

    If TEXT is given, it is stored as what is true now.
    """

    async def work() -> MemoryEdit:
        async with using_verbs(store, author=author, viewer=viewer) as verbs:
            return await verbs.supersede(session, memory_id, text, dry_run=dry_run)

    _print_edit(run(work), as_json=as_json)


def pin(
    memory_id: MemoryArgument,
    session: SessionOption,
    author: AuthorOption = "host",
    viewer: ViewerOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Show a memory in every prompt in which it fits."""
    _change(store, author, viewer, lambda verbs: verbs.pin(session, memory_id), as_json=as_json)


def unpin(
    memory_id: MemoryArgument,
    session: SessionOption,
    author: AuthorOption = "host",
    viewer: ViewerOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Stop showing a memory in every prompt."""
    _change(store, author, viewer, lambda verbs: verbs.unpin(session, memory_id), as_json=as_json)


def undo(
    edit_id: Annotated[str, typer.Argument(metavar="EDIT", help="The id that `log` shows.")],
    session: SessionOption,
    author: AuthorOption = "host",
    viewer: ViewerOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Undo an edit.

    A memory that `forget` erased cannot be restored.
    """
    _change(store, author, viewer, lambda verbs: verbs.undo(session, edit_id), as_json=as_json)


def forget(
    memory_id: MemoryArgument,
    session: SessionOption,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; the record of erasures keeps it.")] = "",
    author: AuthorOption = "host",
    viewer: ViewerOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Erase a remembered text or a document for good, with its corrections and pins."""

    async def work() -> tuple[str, ...]:
        async with using_verbs(store, author=author, viewer=viewer) as verbs:
            return await verbs.forget(session, memory_id, reason=reason)

    gone = run(work)
    if as_json:
        print_json({"evidence_ids": gone})
    else:
        tell(f"Erased: {', '.join(gone)}.")


ProposalArgument = Annotated[str, typer.Argument(metavar="PROPOSAL", help="The id that `proposals` shows.")]


def proposals(
    session: SessionOption,
    viewer: ViewerOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """List the proposals of models that nobody has decided on, oldest first.

    Models propose memories instead of storing them while the setting `memory.review` is on.
    """

    async def work() -> tuple[MemoryEdit, ...]:
        async with using_verbs(store, viewer=viewer) as verbs:
            return await verbs.proposals(session)

    found = run(work)
    if as_json:
        print_json(found)
        return
    for each in found:
        show(
            f"{each.edit_id} · {each.title} · by {each.author}" + (f" · of {each.turn_id}" if each.turn_id else ""),
            "bold",
        )
        for mark, text in (("-", each.before), ("+", each.after)):
            if text:
                show(f"{mark} {text}")
    if not found:
        say("Nothing waits.")


def accept(
    proposal_id: ProposalArgument,
    session: SessionOption,
    text: Annotated[str, typer.Argument(metavar="[TEXT]", help="What to remember instead of the proposed text.")] = "",
    author: AuthorOption = "host",
    viewer: ViewerOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Carry out a proposal.

    If TEXT is given, it is stored instead of the proposed text.
    """
    said = read_input() if text == "-" else text
    _change(store, author, viewer, lambda verbs: verbs.accept(session, proposal_id, said), as_json=as_json)


def reject(
    proposal_id: ProposalArgument,
    session: SessionOption,
    author: AuthorOption = "host",
    viewer: ViewerOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Refuse a proposal.

    It is not made again for the same turns.
    """
    _change(store, author, viewer, lambda verbs: verbs.reject(session, proposal_id), as_json=as_json)


def log(
    session: SessionOption,
    viewer: ViewerOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """List all edits of a session's memory, oldest first, with author and time."""

    async def work() -> tuple[MemoryEdit, ...]:
        async with using_verbs(store, viewer=viewer) as verbs:
            return await verbs.log(session)

    edits = run(work)
    if as_json:
        print_json(edits)
        return
    for each in edits:
        _show_edit(each)
    if not edits:
        say("Nothing was edited.")


def _change(
    store: str,
    author: str,
    viewer: str | None,
    change: Callable[[MemoryVerbs], Awaitable[MemoryEdit]],
    *,
    as_json: bool,
) -> None:
    async def work() -> MemoryEdit:
        async with using_verbs(store, author=author, viewer=viewer) as verbs:
            return await change(verbs)

    _print_edit(run(work), as_json=as_json)


def _print_edit(done: MemoryEdit, *, as_json: bool) -> None:
    if as_json:
        print_json(done)
    else:
        _show_edit(done)


def _show_edit(done: MemoryEdit) -> None:
    at = "" if done.at is None else f" at {format_time(done.at)}"
    on = "" if done.action is MemoryAction.REMEMBER else f" of {done.memory_id}"
    undone = f" · undone by {done.undone_by} at {done.undone_at}" if done.undone_at else ""
    tell(f"{done.edit_id or 'not stored'} · {done.action.value}{on} · by {done.author}{at}{undone}", "bold")
    for mark, text in (("-", done.before), ("+", done.after)):
        if text:
            show(f"{mark} {text}")
    if done.redacted:
        tell(f"masked: {', '.join(done.redacted)}", "dim")
