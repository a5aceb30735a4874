"""`init`, `validate`, `import`: writes and checks world packs, and imports packs and corpora into a store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from anyio import to_thread

from jacquard.authoring.opening import find_opening_faults
from jacquard.cli.progress import indexing
from jacquard.cli.shared import (
    DEFAULT_STORE,
    EmbedderOption,
    JsonOption,
    StoreOption,
    fail,
    open_store,
    print_json,
    run,
    say,
    show,
)
from jacquard.config.extension_points import open_named_plugin
from jacquard.core.degradations import describe_degradation
from jacquard.pipeline.planning.actions import find_action_faults
from jacquard.pipeline.planning.rules import RulePlanner
from jacquard.templating import describe_template_faults, find_shipped_templates, open_templates
from jacquard.wiring.runtime import Runtime
from mnemosyne.core.errors import WorldPackError
from mnemosyne.core.tokens import CalibratedEstimator
from mnemosyne.formats.corpus_importer import CorpusImporter
from mnemosyne.plugins import IMPORTERS
from mnemosyne.protocols import Importer
from mnemosyne.schema.memory import session_scope, world_scope
from mnemosyne.schema.record import ImportRequest
from mnemosyne.schema.world import WorldPack
from mnemosyne.world import describe, load_world
from mnemosyne.world.scaffold import write_scaffold


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that does not exist yet, or an empty one.")],
    locale: Annotated[
        str, typer.Option("--locale", metavar="TAG", help="`en` or `zh-CN`: the language of the starter pack.")
    ] = "en",
) -> None:
    """Write a small commented world pack that validates and plays. A folder that is not empty is left unchanged."""

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
    """Check a world pack and its templates; every fault is reported at once with file, line and key."""

    async def work() -> None:
        faults: list[str] = []
        counts: dict[str, object] = {}
        try:
            world = load_world(folder, try_patterns=True)
        except WorldPackError as error:
            faults += error.faults
        else:
            counts = dict(describe(world))
            faults += find_world_faults(world)
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


SourceArgument = Annotated[
    Path,
    typer.Argument(
        metavar="PATH",
        help="A world pack, a corpus (corpus.jsonl or its folder), or what the importer of a plugin reads.",
    ),
]
ImportedSessionOption = Annotated[
    str | None,
    typer.Option(
        "--session",
        "-s",
        metavar="ID",
        help="The session to create. For a corpus: from its session with this name.",
    ),
]
OnlyOption = Annotated[
    str | None,
    typer.Option("--only", metavar="NAME", help="The session in the corpus, where it has another name there."),
]
CorpusWorldOption = Annotated[
    Path | None,
    typer.Option("--world", "-w", metavar="DIR", help="The world in which the sessions of a corpus continue."),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="`world`, `corpus`, or the importer of a plugin (default: a folder with a world.yaml is a world, what is not, a "
        "corpus).",
    ),
]
UserOption = Annotated[
    list[str] | None,
    typer.Option(
        "--user", metavar="NAME", help="The speaker in a corpus who is the user; all others are the assistant."
    ),
]
AssistantOption = Annotated[
    list[str] | None,
    typer.Option(
        "--assistant", metavar="NAME", help="The speaker in a corpus who is the assistant; all others are the user."
    ),
]


def import_(
    source: SourceArgument,
    session: ImportedSessionOption = None,
    only: OnlyOption = None,
    world: CorpusWorldOption = None,
    format_: FormatOption = None,
    user: UserOption = None,
    assistant: AssistantOption = None,
    store: StoreOption = DEFAULT_STORE,
    embedder: EmbedderOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Import a world pack (and a session that starts from it), a corpus, or what a plugin reads into a store, and index
    it.

    Without --session a corpus becomes one session for each that it names. After an interruption the same command
    continues. Without --user and --assistant the `role` of its lines says who is the user, else the speakers' names do,
    else it is the first speaker.
    """
    remarks: list[str] = []

    async def work() -> None:
        if format_ == "world" or (format_ is None and (source / "world.yaml").is_file()):
            if world is not None or user or assistant or only is not None:
                raise typer.BadParameter(
                    "--only, --world, --user and --assistant are for a corpus; this is a world pack"
                )
            made = await _import_world(source, session, store, embedder)
        else:
            request = ImportRequest(
                session_id=session, only=only, users=tuple(user or ()), assistants=tuple(assistant or ())
            )
            importer = await to_thread.run_sync(_open_importer, format_ or "corpus")
            async with open_store(store, world=world, embedder=embedder) as runtime:
                made = await _import_conversations(runtime, importer, source, request, remarks)
        if as_json:
            print_json({"sessions": made})
        else:
            for name, count in made.items():
                show(f"session {name}: {count} turns")
        for line in remarks:
            say(line)

    run(work)


def find_world_faults(world: WorldPack) -> list[str]:
    """Return the faults that the pack's checker cannot see: in templates, in replies, and templates that do not exist.

    Every template without such a fault is rendered, under the limits that apply in play.
    """
    own = () if world.template_root is None else (Path(world.template_root),)
    templates = open_templates((*own, find_shipped_templates()))
    known = templates.template_ids
    wanted = [world.planner.default_template, *(rule.template_id for rule in world.planner.templates)]
    unknown = [name for name in dict.fromkeys(wanted) if name not in known]
    faults = [fault for root in own for fault in describe_template_faults(root)]
    if not faults:
        named = [name for name in dict.fromkeys((*wanted, *(known if own else ()))) if name in known]
        faults += find_opening_faults(world, templates, named, RulePlanner(), CalibratedEstimator())
    return [
        *faults,
        *find_action_faults(world),
        *(f"planner.yaml: template {name!r} does not exist; there are: {', '.join(known)}" for name in unknown),
    ]


async def _import_world(source: Path, session: str | None, store: str, embedder: str) -> dict[str, int]:
    async with open_store(store, world=source, embedder=embedder) as runtime:
        await runtime.import_world()
        made: dict[str, int] = {}
        if session is not None:
            made[session] = (await runtime.ensure_session(session, index=False)).depth
        with indexing() as progress:
            await runtime.sync(session, progress)
        _print_index_degradations(runtime, [] if runtime.world is None else [world_scope(runtime.world.world_id)])
    return made


async def _import_conversations(
    runtime: Runtime, importer: Importer, source: Path, request: ImportRequest, remarks: list[str]
) -> dict[str, int]:
    """Bring in what an importer reads; return the turns by session. What there is to say of it is added to `remarks`."""
    imported = await to_thread.run_sync(importer.read, source, request)
    known = set(await runtime.store.sessions())
    made: dict[str, int] = {}
    for each in imported.conversations:
        session_id = each.start.session_id
        made[session_id] = (await runtime.import_session(each.start)).depth
        with indexing(f"indexing {session_id}") as progress:
            await runtime.sync(session_id, progress)
        _print_index_degradations(runtime, [session_scope(session_id)])
        if session_id in known:
            remarks.append(f"session {session_id} was there: the turns that it had keep their speakers' roles")
        remarks += each.notes
    remarks += imported.notes
    return made


def _open_importer(name: str) -> Importer:
    if name == "corpus":
        return CorpusImporter()
    importer: Importer = open_named_plugin(IMPORTERS, name)
    return importer


def _print_index_degradations(runtime: Runtime, scopes: Sequence[str]) -> None:
    for code in runtime.retriever.degradations_for(scopes):
        say(describe_degradation(code).detail)
