"""`init`, `validate`, `import`: making and checking a world pack, bringing packs and corpora into a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from jacquard.authoring.opening import opening_faults
from jacquard.cli.progress import indexing
from jacquard.cli.shared import DEFAULT_STORE, EmbedderOption, JsonOption, StoreOption, fail, print_json, run, say, show
from jacquard.core.degradations import describe_degradation
from jacquard.pipeline.planning.actions import action_faults
from jacquard.pipeline.planning.rules import RulePlanner
from jacquard.templating import open_templates, shipped_templates, template_faults
from jacquard.wiring.runtime import Runtime, open_runtime
from mnemosyne.core.errors import CorpusError, WorldPackError
from mnemosyne.core.tokens import CalibratedEstimator
from mnemosyne.importers.corpus import (
    Corpus,
    Speakers,
    check_speakers,
    corpus_file,
    read_corpus,
    speakers_of,
    to_session,
)
from mnemosyne.schema.memory import session_scope, world_scope
from mnemosyne.schema.world import WorldPack
from mnemosyne.world import describe, load_world
from mnemosyne.world.scaffold import write_scaffold

_REASONS = {
    "role": "as the file says",
    "asked": "as you say",
    "name": "by their names",
    "first": "the first speaker was taken for the user",
}


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that does not exist yet, or an empty one.")],
    locale: Annotated[
        str, typer.Option("--locale", metavar="TAG", help="`en` or `zh-CN`: the language of the starter pack.")
    ] = "en",
) -> None:
    """Write a small commented world pack that validates and plays. A folder that holds anything is left as it is."""

    async def work() -> None:
        written = write_scaffold(folder, locale)
        for path in written:
            say(f"wrote {path}", "green")
        show(f"Try it: jacquard weave --world {folder} --session first --input ...")

    run(work)


def validate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The world pack.")],
    as_json: JsonOption = False,
) -> None:
    """Check a world pack, its templates too; every fault is told at once with file, line and key."""

    async def work() -> None:
        faults: list[str] = []
        counts: dict[str, object] = {}
        try:
            world = load_world(folder, try_patterns=True)
        except WorldPackError as error:
            faults += error.faults
        else:
            counts = dict(describe(world))
            faults += world_faults(world)
        if as_json:
            print_json({"ok": not faults, "faults": faults, "counts": counts})
        if faults:
            if not as_json:
                raise fail("\n".join([*faults, f"{len(faults)} faults."]))
            raise typer.Exit(1)
        if not as_json:
            show(f"{folder} is a good pack.", "green")
            for name, value in counts.items():
                show(f"  {name}: {value}")

    run(work)


def import_(
    source: Annotated[
        Path, typer.Argument(metavar="PATH", help="A world pack, or a corpus (corpus.jsonl or its folder).")
    ],
    session: Annotated[
        str | None,
        typer.Option(
            "--session",
            "-s",
            metavar="ID",
            help="The session to make. For a corpus: of the session in the file so named.",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="NAME", help="The session in the corpus, when its name there is another one."),
    ] = None,
    world: Annotated[
        Path | None, typer.Option("--world", "-w", metavar="DIR", help="The world that a corpus's sessions go on in.")
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option("--user", metavar="NAME", help="Who in a corpus is the user; all others are the assistant."),
    ] = None,
    assistant: Annotated[
        list[str] | None,
        typer.Option("--assistant", metavar="NAME", help="Who in a corpus is the assistant; all others are the user."),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    embedder: EmbedderOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Bring a world pack (and a session that starts from it) or a normalised corpus into a store, and index it.

    A corpus without --session becomes one session for each that it names. Stopped half way, the same command goes on.
    Without --user and --assistant the `role` of its lines says who is the user, else the speakers' names, else who speaks first.
    """
    told: list[str] = []

    async def work() -> None:
        if (source / "world.yaml").is_file():
            if world is not None or user or assistant or only is not None:
                raise typer.BadParameter(
                    "--only, --world, --user and --assistant are for a corpus; this is a world pack"
                )
            made = await _import_world(source, session, store, embedder)
        else:
            voices = {"user": user or [], "assistant": assistant or []}
            async with open_runtime(store, world=world, embedder=embedder) as runtime:
                made = await _import_corpus(runtime, source, (session, only), voices, told)
        if as_json:
            print_json({"sessions": made})
        else:
            for name, count in made.items():
                show(f"session {name}: {count} turns")
        for line in told:
            say(line)

    run(work)


def world_faults(world: WorldPack) -> list[str]:
    """Return what the pack's checker cannot see: faults of templates, of replies, and templates that do not exist.

    Whatever has no fault of its own is rendered, under the limits that hold at play.
    """
    own = () if world.template_root is None else (Path(world.template_root),)
    templates = open_templates((*own, shipped_templates()))
    known = templates.template_ids
    wanted = [world.planner.default_template, *(rule.template_id for rule in world.planner.templates)]
    unknown = [name for name in dict.fromkeys(wanted) if name not in known]
    faults = [fault for root in own for fault in template_faults(root)]
    if not faults:
        named = [name for name in dict.fromkeys((*wanted, *(known if own else ()))) if name in known]
        faults += opening_faults(world, templates, named, RulePlanner(), CalibratedEstimator())
    return [
        *faults,
        *action_faults(world),
        *(f"planner.yaml: template {name!r} does not exist; there are: {', '.join(known)}" for name in unknown),
    ]


async def _import_world(source: Path, session: str | None, store: str, embedder: str) -> dict[str, int]:
    async with open_runtime(store, world=source, embedder=embedder) as runtime:
        await runtime.import_world()
        made: dict[str, int] = {}
        if session is not None:
            made[session] = (await runtime.ensure_session(session, index=False)).depth
        with indexing() as progress:
            await runtime.sync(session, progress)
        _print_index_degradations(runtime, [] if runtime.world is None else [world_scope(runtime.world.world_id)])
    return made


async def _import_corpus(
    runtime: Runtime,
    source: Path,
    which: tuple[str | None, str | None],
    voices: Mapping[str, Sequence[str]],
    told: list[str],
) -> dict[str, int]:
    """Bring a corpus in; `which`: the session to make and that of the corpus. What there is to say of it is added to `told`."""
    corpus = read_corpus(corpus_file(source))
    session, only = which
    wanted = _choose_sessions(source, corpus, session, only)
    check_speakers(corpus, wanted, [*voices["user"], *voices["assistant"]])
    known = set(await runtime.store.sessions())
    made: dict[str, int] = {}
    has_guessed = False
    for name in wanted:
        start = to_session(corpus, name, session_id=session or name, user=voices["user"], assistant=voices["assistant"])
        made[start.session_id] = (await runtime.import_session(start)).depth
        with indexing(f"indexing {start.session_id}") as progress:
            await runtime.sync(start.session_id, progress)
        _print_index_degradations(runtime, [session_scope(start.session_id)])
        if start.session_id in known:
            told.append(f"session {start.session_id} was there: the turns that it had keep their speakers' roles")
        speakers = speakers_of(corpus.entries_for(name), user=voices["user"], assistant=voices["assistant"])
        has_guessed = has_guessed or speakers.reason in ("first", "name")
        if speakers.reason:
            told.append(f"session {start.session_id}: {_describe_speakers(speakers)}")
    if has_guessed:
        told.append('To say it yourself, import into a new session with --user NAME, or write "role" into the lines.')
    return made


def _choose_sessions(source: Path, corpus: Corpus, session: str | None, only: str | None) -> list[str | None]:
    """Return the sessions of a corpus that are to be imported."""
    if only is not None or session in corpus.sessions:
        return [only or session]
    if session is None:
        return [*corpus.sessions] or [None]
    if len(corpus.sessions) > 1:
        known = ", ".join(corpus.sessions[:8])
        raise CorpusError(f"{source}: no session {session!r} in it; choose one with --only. It has: {known}.")
    return [*corpus.sessions] or [None]


def _describe_speakers(speakers: Speakers) -> str:
    named = [", ".join(name or "who has no name" for name in names) for names in (speakers.users, speakers.assistants)]
    told = f"user: {named[0] or 'nobody'}; assistant: {named[1] or 'nobody'}"
    return f"{told} ({_REASONS[speakers.reason]})"


def _print_index_degradations(runtime: Runtime, scopes: Sequence[str]) -> None:
    for code in runtime.retriever.degradations_for(scopes):
        say(describe_degradation(code).detail)
