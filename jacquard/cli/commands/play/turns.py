"""Plays one turn from the command line: `weave` prepares its prompt, `commit` stores the reply, `action` changes the state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from jacquard.cli.command_parts import (
    DEFAULT_STORE,
    BranchOption,
    ConfigOption,
    EmbedderOption,
    JsonOption,
    SessionOption,
    StoreOption,
    TokenEstimatorOption,
    WorldOption,
    fail,
    load_configuration,
    open_store,
    print_json,
    read_input,
    read_text,
    run,
    say,
    show,
)
from jacquard.cli.language import speak
from jacquard.cli.progress import indexing
from jacquard.cli.show import show_turn
from jacquard.config.input_limits import check_user_message
from jacquard.config.sections import RuntimeConfig
from jacquard.core.plan import Triage
from jacquard.pipeline.record.commit import CommitResult
from jacquard.pipeline.record.prepared_turn import PreparedTurn, turn_to_json
from jacquard.wiring.runtime import Runtime
from mnemosyne.core import codec
from mnemosyne.stores.locate import locate_store

BEHIND_SECONDS = 90.0
"""Maximum time for which `commit`, after printing its result, waits for background work (summaries, memory), in seconds."""

InputOption = Annotated[
    str, typer.Option("--input", "-i", metavar="TEXT", help="What the user says (`-` reads standard input).")
]

LINGER_SECONDS = 4.0
"""Default time for which `weave`, after printing the prompt, waits for a late answer of a model, in seconds."""


ModelOption = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="The small model that selects, as litellm names it (`openai/…`)."),
]
ApiBaseOption = Annotated[str | None, typer.Option("--api-base", metavar="URL", help="Where that model is served.")]
RerankerOption = Annotated[
    str | None,
    typer.Option("--reranker", metavar="DIR", help="A local cross-encoder that selects instead of a model."),
]
LeaseOption = Annotated[
    int | None,
    typer.Option(
        "--lease",
        metavar="TURNS",
        help="How many further turns a selection serves while the scene stays the same. [0]",
    ),
]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="What kind of agent the prompt is for: `story`, `assistant`, `coding`, `support`, or one of the pack's. A session "
        "that does not exist starts without a pack then. [auto]",
    ),
]
LayoutOption = Annotated[
    str | None,
    typer.Option(
        "--layout",
        metavar="NAME",
        help="`classic`, `cache_first`, or one of the pack's. [the profile's]",
    ),
]
TemplateOption = Annotated[
    str | None,
    typer.Option("--template", metavar="ID", help="A template instead of the one that the plan chooses."),
]
BudgetOption = Annotated[int | None, typer.Option("--budget", metavar="TOKENS", help="The model's input limit. [8192]")]
ReserveOption = Annotated[
    int | None,
    typer.Option("--reserve", metavar="TOKENS", help="Tokens of it that are kept free for the reply. [1024]"),
]
DeadlineOption = Annotated[
    int | None, typer.Option("--deadline-ms", metavar="MS", help="How long the turn waits for Stream B. [1500]")
]
SelectorTimeoutOption = Annotated[
    int | None,
    typer.Option(
        "--selector-timeout-ms",
        metavar="MS",
        help="How long the small model may take before the heuristic selects; by default until the deadline.",
    ),
]
LingerOption = Annotated[
    float | None,
    typer.Option(
        "--linger",
        metavar="SECONDS",
        help="How long to wait for a late answer after the prompt was printed, in seconds. [4]",
    ),
]
ViewerOption = Annotated[str | None, typer.Option("--viewer", metavar="NAME", help="Who may read the memories.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the turn and write nothing, not even the session.")]
TurnIdOption = Annotated[
    str | None, typer.Option("--turn", metavar="ID", help="An id of your own; the same id is answered once.")
]


def weave(
    session: SessionOption,
    text: InputOption,
    world: WorldOption = None,
    store: StoreOption = DEFAULT_STORE,
    config: ConfigOption = None,
    model: ModelOption = None,
    api_base: ApiBaseOption = None,
    reranker: RerankerOption = None,
    lease: LeaseOption = None,
    profile: ProfileOption = None,
    layout: LayoutOption = None,
    template: TemplateOption = None,
    budget: BudgetOption = None,
    reserve: ReserveOption = None,
    deadline_ms: DeadlineOption = None,
    selector_timeout_ms: SelectorTimeoutOption = None,
    linger: LingerOption = None,
    viewer: ViewerOption = None,
    branch: BranchOption = None,
    turn: TurnIdOption = None,
    embedder: EmbedderOption = "auto",
    token_estimator: TokenEstimatorOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Prepare one turn and print its prompt with the receipt.

    A session that does not exist yet starts from the pack: jacquard play weave --world examples/whispering_forest/zh
    --session demo --input 那把钥匙是不是开启神庙的? An agent without a pack: jacquard play weave --profile assistant
    --session s1 --input 'Hello'
    """
    given = {
        "profile": profile,
        "layout": layout,
        "template_id": template,
        "viewer": viewer,
        "token_estimator": token_estimator,
        "budget": {"max_input_tokens": budget, "reserved_reply_tokens": reserve},
        "curation": {
            "deadline_ms": deadline_ms,
            "selector_timeout_ms": selector_timeout_ms,
            # The process ends after this turn, so background work gets no more time than the command waits for it.
            "background_seconds": LINGER_SECONDS if linger is None and config is None else linger,
            "lease_turns": lease,
        },
        "selector": {"model": model, "api_base": api_base, "reranker": reranker},
    }
    settings, user_message = load_configuration(given), _text(text)

    async def work() -> None:
        opening = {"world": world, "embedder": embedder}
        async with _open_for_input(store, user_message, settings, dry_run=dry_run, **opening) as runtime:
            await _prepare_session(runtime, session, user_message)
            prepared = await runtime.engine.prepare_turn(
                session, user_message, settings, turn_id=turn, branch_id=branch
            )
            _print_turn(prepared, as_json)
            if dry_run:
                say("Nothing was written (--dry-run).", "dim")
            else:
                await runtime.engine.settle(LINGER_SECONDS if linger is None else linger)

    run(work)


def action(
    session: SessionOption,
    text: InputOption,
    world: WorldOption = None,
    store: StoreOption = DEFAULT_STORE,
    token_estimator: TokenEstimatorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply a numerical action of the world and print its answer.

    Numerical actions are declared in the world pack. No model is called.
    """
    config, user_message = load_configuration({"token_estimator": token_estimator}), _text(text)

    async def work() -> None:
        async with open_store(store, world=world, embedder="none", config=config) as runtime:
            check_user_message(user_message, runtime.limits)
            await runtime.ensure_session(session, index=False)
            meant, known = await runtime.action(session, user_message)
            if meant is None:
                raise fail(
                    f"No numerical action matches {user_message!r}. The world's actions: {', '.join(known) or 'none'}."
                )
            _print_turn(await runtime.engine.prepare_turn(session, user_message), as_json)

    run(work)


def commit(
    session: SessionOption,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="The model's reply, whole (`-` reads standard input).")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", metavar="FILE", help="The reply in a file.")] = None,
    turn: Annotated[
        str | None, typer.Option("--turn", metavar="ID", help="The prepared turn (default: the pending one).")
    ] = None,
    world: WorldOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Commit the main model's reply to a prepared turn.

    The text of the reply goes into the history. The ops in the reply (changes of the state) are applied: all of them, or
    none.
    """
    if (text is None) == (file is None):
        raise fail("Give the reply with --text or with --file, one of them.", code=2)
    reply = read_text(file) if file else _text(text or "")

    async def work() -> None:
        async with open_store(store, world=world, embedder="none") as runtime:
            _print_commit(await runtime.engine.commit_assistant_message(session, reply, turn_id=turn), as_json)
            await runtime.engine.settle(BEHIND_SECONDS)

    run(work)


@asynccontextmanager
async def _open_for_input(
    store: str, user_message: str, settings: RuntimeConfig, *, dry_run: bool, **opening: Any
) -> AsyncIterator[Runtime]:
    # Opening a missing store creates its files.
    place = "memory:" if dry_run and not _has_files(store) else store
    async with open_store(place, config=settings, **opening) as runtime:
        # Checked before anything is written or loaded for it.
        check_user_message(user_message, settings.limits)
        if not dry_run:
            yield runtime
            return
        async with runtime.overlay() as dry:
            yield dry


def _has_files(store: str) -> bool:
    database = locate_store(store).database
    return database is None or database.exists()


async def _prepare_session(runtime: Runtime, session: str, user_message: str) -> None:
    await runtime.ensure_session(session, index=False)
    # The process ends after one turn, so there is no later garbage collection to avoid.
    await runtime.warm(user_message, tune_process=False)
    with indexing() as progress:
        await runtime.sync(session, progress)


def _text(text: str) -> str:
    return read_input() if text == "-" else text


def _print_turn(turn: PreparedTurn, as_json: bool) -> None:
    if as_json:
        print_json(turn_to_json(turn))
    elif turn.triage is Triage.NUMERICAL:
        show(turn.reply or "")
    else:
        show_turn(turn)


def _print_commit(result: CommitResult, as_json: bool) -> None:
    if as_json:
        print_json(codec.to_plain(result))
        return
    show(result.content)
    for verdict in result.verdicts:
        say(f"{verdict.op}: {speak(verdict.reason)}", "green" if verdict.is_applied else "red")
        for note in verdict.notes:
            say(f"  {note.text}", "dim")
    if result.refused:
        say(f"state unchanged: {result.refused}", "red")
    for entry in result.set_aside:
        say(
            f"not carried out ({entry.code}, characters {entry.start} to {entry.end} of the reply): {entry.sentence}",
            "yellow",
        )
    user_message = {entry.sentence for entry in result.set_aside}
    for correction in result.corrections:
        if correction not in user_message:
            say(f"mended: {correction}", "dim")
    say(f"committed turn {result.turn_id}", "dim")
