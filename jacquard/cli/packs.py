"""`init`, `validate`, `import`: making and checking a world pack, bringing packs and corpora into a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jacquard.authoring.opening import opening_faults
from jacquard.build import open_workshop
from jacquard.cli.progress import indexing
from jacquard.cli.shared import DEFAULT_STORE, EmbedderOption, JsonOption, StoreOption, fail, print_json, run, say, show
from jacquard.planners.actions import action_faults
from jacquard.planners.rules import RulePlanner
from jacquard.templating import open_templates, shipped_templates, template_faults
from mnemosyne.errors import CorpusError, WorldPackError
from mnemosyne.importers.corpus import corpus_file, read_corpus, to_session
from mnemosyne.schema.world import WorldPack
from mnemosyne.tokens import CalibratedEstimator
from mnemosyne.world import describe, load_world
from mnemosyne.world.scaffold import write_scaffold


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that does not exist yet, or an empty one.")],
    locale: Annotated[
        str, typer.Option("--locale", metavar="TAG", help="`en` or `zh-CN`: the language of the starter pack.")
    ] = "en",
) -> None:
    """Write a small commented world pack that validates and plays. Nothing that exists is overwritten."""

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
    store: StoreOption = DEFAULT_STORE,
    embedder: EmbedderOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Bring a world pack (and a session that starts from it) or a normalised corpus into a store, and index it.

    A corpus without --session becomes one session for each that it names. Stopped half way, the same command goes on.
    """

    async def work() -> None:
        if (source / "world.yaml").is_file():
            made = await _import_world(source, session, store, embedder)
        else:
            made = await _import_corpus(source, session, only, store, embedder)
        if as_json:
            print_json({"sessions": made})
        else:
            for name, count in made.items():
                show(f"session {name}: {count} turns")

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
    async with open_workshop(store, world=source, embedder=embedder) as workshop:
        await workshop.import_world()
        made: dict[str, int] = {}
        if session is not None:
            made[session] = (await workshop.ensure_session(session, index=False)).depth
        with indexing() as progress:
            await workshop.sync(session, progress)
    return made


async def _import_corpus(
    source: Path, session: str | None, only: str | None, store: str, embedder: str
) -> dict[str, int]:
    corpus = read_corpus(corpus_file(source))
    wanted: list[str | None] = [only or session] if (only or session) else [*corpus.sessions]
    if only is None and session is not None and session not in corpus.sessions:
        if len(corpus.sessions) > 1:
            known = ", ".join(corpus.sessions[:8])
            raise CorpusError(f"{source}: no session {session!r} in it; choose one with --only. It has: {known}.")
        wanted = [corpus.sessions[0]] if corpus.sessions else [None]
    made: dict[str, int] = {}
    async with open_workshop(store, embedder=embedder) as workshop:
        for name in wanted or [None]:
            start = to_session(corpus, name, session_id=session or name)
            made[start.session_id] = (await workshop.import_session(start)).depth
            with indexing(f"indexing {start.session_id}") as progress:
                await workshop.sync(start.session_id, progress)
    return made
