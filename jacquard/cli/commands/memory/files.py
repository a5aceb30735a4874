"""Imports world packs, corpora and files of other programs into a store, and exports books, cards and chats.

A corpus is a labelled data set or a host's own export, in one file `corpus.jsonl` with one document per line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from anyio import to_thread

from jacquard.authoring.files.incoming import ImportOutcome, IncomingFiles, bring_in
from jacquard.authoring.files.outgoing import write_book, write_card, write_chat
from jacquard.cli.command_parts import (
    DEFAULT_STORE,
    BranchOption,
    EmbedderOption,
    JsonOption,
    StoreOption,
    open_store,
    print_json,
    run,
    say,
    tell,
)
from jacquard.cli.commands.operate.worker_options import (
    AddressOption,
    EngineOption,
    WorkersOption,
    embedding_workers,
)
from jacquard.cli.progress import indexing
from jacquard.config.extension_points import open_named_plugin
from jacquard.core.degradations import DegradationCode, describe_degradation
from jacquard.wiring.parts.embedder import EmbeddingWorkers
from jacquard.wiring.runtime import Runtime
from mnemosyne.formats.corpora.corpus_importer import CorpusImporter
from mnemosyne.formats.recognise import CORPUS, FORMATS, WORLD, read_imported_file, recognise
from mnemosyne.plugins import IMPORTERS
from mnemosyne.protocols import Importer
from mnemosyne.schema.imported_files import Fate, ImportedFile
from mnemosyne.schema.memory import session_scope, world_scope
from mnemosyne.schema.record import ImportedConversations, ImportRequest
from mnemosyne.schema.world import ACTIVATIONS

SourcesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE…",
        help="Books, cards, chats, notes and memories of other programs; or one world pack, corpus, or file for a plugin.",
    ),
]
ImportedSessionOption = Annotated[
    str | None,
    typer.Option(
        "--session",
        "-s",
        metavar="ID",
        help="The session to bring things into; a new one is created. For a corpus: from its session with this name.",
    ),
]
OnlyOption = Annotated[
    str | None,
    typer.Option("--only", metavar="NAME", help="The session in the corpus, where it has another name there."),
]
TargetWorldOption = Annotated[
    Path | None,
    typer.Option(
        "--world",
        "-w",
        metavar="DIR",
        help="The folder of the world: a pack is extended, an empty folder becomes one. Without it the store keeps the world.",
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help=f"How to read the files, where that cannot be told from them: {', '.join(('world', 'corpus', *FORMATS))}, or "
        "the importer of a plugin.",
    ),
]
UserOption = Annotated[
    list[str] | None,
    typer.Option("--user", metavar="NAME", help="The speaker who is the user; also the name for `{{user}}`."),
]
AssistantOption = Annotated[
    list[str] | None,
    typer.Option("--assistant", metavar="NAME", help="The speaker who is the assistant; all others are the user."),
]
LocaleOption = Annotated[
    str | None,
    typer.Option("--locale", metavar="TAG", help="The language of a new world (default: that of its texts)."),
]
ActivationOption = Annotated[
    str | None,
    typer.Option(
        "--activation",
        metavar="|".join(ACTIVATIONS),
        help="How entries of books reach a prompt: by relevance, or by SillyTavern's rules.",
    ),
]


def import_(
    source: SourcesArgument,
    session: ImportedSessionOption = None,
    only: OnlyOption = None,
    world: TargetWorldOption = None,
    format_: FormatOption = None,
    user: UserOption = None,
    assistant: AssistantOption = None,
    locale: LocaleOption = None,
    activation: ActivationOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what becomes of each field, and write nothing.")
    ] = False,
    store: StoreOption = DEFAULT_STORE,
    embedder: EmbedderOption = "auto",
    engine: EngineOption = None,
    workers: WorkersOption = None,
    address: AddressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import files of other programs, or one world pack, or one corpus, and index them.

    Files of other programs are cards, world info, chats, notes and memories; they all go into one world and one session.
    The format of a file is found from its content. The fate of each of its fields is listed.

    Importing the same files again changes nothing, and the same command continues an import that was stopped. With
    --engine ray, workers embed the texts.
    """
    if activation is not None and activation not in ACTIVATIONS:
        raise typer.BadParameter(f"choose one of {', '.join(ACTIVATIONS)}", param_hint="--activation")
    bulk = embedding_workers(engine, workers, address)
    request = ImportRequest(session_id=session, only=only, users=tuple(user or ()), assistants=tuple(assistant or ()))

    async def work() -> None:
        names = [format_ if format_ is not None else await to_thread.run_sync(recognise, each) for each in source]
        alone = [name for name in names if name not in FORMATS]
        if not alone:
            files = [await to_thread.run_sync(_read, *each, request) for each in zip(source, names, strict=True)]
        elif len(source) > 1:
            raise typer.BadParameter(f"a {alone[0]} is imported by itself; name one PATH")
        elif alone[0] == WORLD:
            if world is not None or user or assistant or only is not None:
                raise typer.BadParameter("--only, --world, --user and --assistant are not for a world pack")
            _print_sessions(await _import_world(source[0], session, store, embedder, bulk), (), as_json=as_json)
            return
        else:
            imported = await to_thread.run_sync(_read_by_importer, alone[0], source[0], request)
            if isinstance(imported, ImportedConversations):
                async with open_store(store, world=world, embedder=embedder, workers=bulk) as runtime:
                    remarks: list[str] = []
                    made = await _import_conversations(runtime, imported, remarks)
                _print_sessions(made, remarks, as_json=as_json)
                return
            files = [imported]
        incoming = IncomingFiles(
            files=tuple(files),
            session_id=session or "",
            folder=world,
            user_name=next(iter(request.users), ""),
            locale=locale or "",
            activation=activation or "",
        )
        outcome = None if dry_run else await _import_files(incoming, store, embedder, bulk)
        _print_report(incoming, outcome, as_json=as_json)

    run(work)


def _read(path: Path, name: str, request: ImportRequest) -> ImportedFile:
    return read_imported_file(path, name, request)


def _read_by_importer(name: str, path: Path, request: ImportRequest) -> ImportedConversations | ImportedFile:
    return _open_importer(name).read(path, request)


async def _import_files(
    incoming: IncomingFiles, store: str, embedder: str, bulk: EmbeddingWorkers | None
) -> ImportOutcome:
    async with open_store(store, embedder=embedder, workers=bulk) as runtime:
        with indexing("turns") as progress:
            outcome = await bring_in(runtime, incoming, progress)
        for session_id in outcome.turns:
            with indexing(f"indexing {session_id}") as progress:
                await runtime.sync(session_id, progress)
        scopes = [session_scope(name) for name in outcome.turns]
        await _print_index_degradations(
            runtime, [*scopes, *([world_scope(outcome.world_id)] if outcome.world_id else [])]
        )
    return outcome


def _print_report(incoming: IncomingFiles, outcome: ImportOutcome | None, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "files": [_file_json(file) for file in incoming.files],
                "written": None if outcome is None else _outcome_json(outcome),
            }
        )
        return
    for file in incoming.files:
        _show_file(file)
    if outcome is None:
        tell("Nothing was written (--dry-run).", "dim")
        return
    if outcome.world_id:
        tell(f"world {outcome.world_id}: {outcome.lore_changed} entries of lore changed")
    for path in outcome.written:
        tell(f"wrote {path}", "green")
    for name, (now, before) in outcome.turns.items():
        tell(f"session {name}: {now} turns ({max(0, now - before)} new)")
    if incoming.memories:
        tell(f"memories: {outcome.memories} new of {len(incoming.memories)}")
    for note in outcome.notes:
        say(note)


def _show_file(file: ImportedFile) -> None:
    held = [
        *(f"card of {card.name}" for card in file.cards),
        *(f"book {book.name!r} of {len(book.entries)} entries" for book in file.books),
        *(f"chat {chat.name!r} of {chat.turn_count} turns" for chat in file.chats),
        *([f"{len(file.memories)} memories"] if file.memories else []),
    ]
    tell(f"{file.path} ({file.format}): {', '.join(held) or 'nothing'}", "bold")
    lines: dict[tuple[Fate, str], list[str]] = {}
    counts = Counter[Fate]()
    for each in file.fates:
        lines.setdefault((each.fate, each.note), []).append(f"{each.field} ({each.count})")
        counts[each.fate] += each.count
    order = list(Fate)
    for fate, note in sorted(lines, key=lambda line: (order.index(line[0]), bool(line[1]))):
        why = f" ({note.removeprefix('kept ')})" if note else ""
        tell(f"  {fate.value}{why}: {', '.join(lines[fate, note])}")
    tell(f"  {', '.join(f'{counts[each]} {each.value}' for each in Fate)}", "dim")
    for note in file.notes:
        say(f"  {note}", "yellow")


def _file_json(file: ImportedFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "format": file.format,
        "cards": [card.name for card in file.cards],
        "books": {book.name: len(book.entries) for book in file.books},
        "chats": {chat.name: chat.turn_count for chat in file.chats},
        "memories": len(file.memories),
        "fields": [
            {"field": each.field, "fate": each.fate.value, "count": each.count, "note": each.note}
            for each in file.fates
        ],
        "notes": list(file.notes),
    }


def _outcome_json(outcome: ImportOutcome) -> dict[str, Any]:
    return {
        "world": outcome.world_id,
        "lore_changed": outcome.lore_changed,
        "files": [str(path) for path in outcome.written],
        "sessions": {
            name: {"turns": now, "new": max(0, now - before)} for name, (now, before) in outcome.turns.items()
        },
        "memories": outcome.memories,
        "notes": outcome.notes,
    }


def _print_sessions(made: dict[str, int], remarks: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print_json({"sessions": made})
    else:
        for name, count in made.items():
            tell(f"session {name}: {count} turns")
    for line in remarks:
        say(line)


class ExportFormat(StrEnum):
    """Formats of an exported file."""

    WORLD_INFO = "world-info"
    CARD = "card"
    CHAT = "chat"


def export(
    session: Annotated[
        str, typer.Argument(metavar="SESSION", help="The session whose world or conversation is written.")
    ],
    format_: Annotated[
        ExportFormat,
        typer.Option("--format", metavar="|".join(ExportFormat), help="A book of lore, a character card, or the chat."),
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            "-o",
            metavar="FILE",
            help="Where to write (default: standard output). A card is a PNG if it ends so.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Which book or character, where there are several.")
    ] = None,
    image: Annotated[Path | None, typer.Option("--image", metavar="PNG", help="The picture of a card.")] = None,
    branch: BranchOption = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Write the lore, the character or the conversation of a session for SillyTavern.

    The file is a book of world info, a character card or a chat, as --format says. Importing it again gives the same
    content. Fields that jacquard does not know are written as they were imported.
    """

    async def work() -> None:
        async with open_store(store, embedder="none") as runtime:
            if format_ is ExportFormat.CHAT:
                await write_chat(runtime, session, to, branch_id=branch)
            elif format_ is ExportFormat.WORLD_INFO:
                await to_thread.run_sync(write_book, await runtime.world_of(session), name, to)
            else:
                await to_thread.run_sync(write_card, await runtime.world_of(session), name, to, image)
        if to is not None:
            say(f"wrote {to}", "green")

    run(work)


async def _import_world(
    source: Path, session: str | None, store: str, embedder: str, bulk: EmbeddingWorkers | None
) -> dict[str, int]:
    async with open_store(store, world=source, embedder=embedder, workers=bulk) as runtime:
        await runtime.import_world()
        made: dict[str, int] = {}
        if session is not None:
            made[session] = (await runtime.ensure_session(session, index=False)).depth
        with indexing() as progress:
            await runtime.sync(session, progress)
        await _print_index_degradations(runtime, [] if runtime.world is None else [world_scope(runtime.world.world_id)])
    return made


async def _import_conversations(
    runtime: Runtime, imported: ImportedConversations, remarks: list[str]
) -> dict[str, int]:
    """Import an importer's results; return the turns by session. Remarks are added to `remarks`."""
    known = set(await runtime.store.sessions())
    made: dict[str, int] = {}
    for each in imported.conversations:
        session_id = each.start.session_id
        made[session_id] = (await runtime.import_session(each.start)).depth
        with indexing(f"indexing {session_id}") as progress:
            await runtime.sync(session_id, progress)
        await _print_index_degradations(runtime, [session_scope(session_id)])
        if session_id in known:
            remarks.append(f"session {session_id} was there: the turns that it had keep their speakers' roles")
        remarks += each.notes
    remarks += imported.notes
    return made


def _open_importer(name: str) -> Importer:
    if name == CORPUS:
        return CorpusImporter()
    importer: Importer = open_named_plugin(IMPORTERS, name)
    return importer


async def _print_index_degradations(runtime: Runtime, scopes: Sequence[str]) -> None:
    for code in runtime.retriever.degradations_for(scopes):
        say(describe_degradation(code).detail)
    if (embedder := runtime.embedder) is not None:
        for scope in scopes:
            if await runtime.index.unembedded_ids(scope, embedder.name, 1):
                say(f"{scope}: {describe_degradation(DegradationCode.VECTORS_BEHIND).detail}", "yellow")
