"""Handlers for files of other programs: imports of sent files, and exports as downloads."""

from __future__ import annotations

import base64
import binascii
import re
import shutil
import tempfile
from dataclasses import replace
from itertools import islice
from pathlib import Path

import anyio
from anyio import to_thread
from starlette.responses import Response

from jacquard.authoring.files.incoming import ImportOutcome, IncomingFiles, bring_in, name_sessions
from jacquard.authoring.files.outgoing import render_book, render_card, render_chat
from jacquard.core.errors import ConfigError
from jacquard.remote.bodies import ImportAnswer, ImportedTurns, ImportFiles, ReadFile, SentFile
from jacquard.service.answers import answer_file
from jacquard.service.http.call import Call, handles
from jacquard.service.ids import check_id
from jacquard.service.proxy.conversation import session_of_chat
from jacquard.templating.files import with_templates
from mnemosyne.core.errors import CorpusError
from mnemosyne.files import write_file
from mnemosyne.formats.archives import unpack_archive
from mnemosyne.formats.recognise import FORMATS, WORLD, holds_export, read_imported_file, recognise
from mnemosyne.schema.imported_files import ImportedFile
from mnemosyne.schema.record import ImportRequest
from mnemosyne.schema.world import ACTIVATIONS, WorldPack
from mnemosyne.world import load_world
from mnemosyne.world.pack_json import with_own_digest

MOST_NAME_CHARS = 200
MOST_UNPACKED_BYTES = 100_000_000
"""Maximum number of bytes to which the files of one sent archive may unpack."""
_WRONG_NAME = re.compile(r"[\x00-\x1f\x7f\\\\:*?\"<>|]")
_DOTS = re.compile(r"\.*")
_EXPORTS = {"chat": "jsonl", "card": "json", "card-png": "png", "world-info": "json"}
"""Suffix of the file of each format of an export."""


@handles
async def import_files(call: Call) -> ImportAnswer:
    """Import the sent files. They are read from a temporary folder, which is removed at the end.

    Raises CorpusError for a file that cannot be read, and ConfigError for an invalid name, content or option.
    """
    sent = call.read(ImportFiles)
    if sent.activation not in ("", *ACTIVATIONS):
        raise ConfigError(f"activation is {sent.activation[:40]!r}; choose from {', '.join(ACTIVATIONS)}.")
    folder = Path(await to_thread.run_sync(lambda: tempfile.mkdtemp(prefix="jacquard-import-")))
    try:
        files, worlds = await to_thread.run_sync(_read_files, sent, folder)
        answer = await _import(call, sent, files)
        for each in worlds:
            answer = await _import_world(call, sent, each, answer)
        return answer
    except CorpusError as error:
        raise CorpusError(str(error).replace(f"{folder}/", "")) from None
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))


async def _import(call: Call, sent: ImportFiles, files: tuple[ImportedFile, ...]) -> ImportAnswer:
    incoming = IncomingFiles(
        files=files,
        session_id=sent.session_id or "",
        user_name=sent.user,
        locale=sent.locale,
        activation=sent.activation,
    )
    names = name_sessions(incoming) if files else {}
    for session_id in names:
        check_id("session_id", session_id)
    shown = tuple(map(_describe, files))
    if sent.dry_run:
        return ImportAnswer(files=shown, written=False, sessions=dict.fromkeys(names, ImportedTurns(turns=0, new=0)))
    outcome = await bring_in(call.runtime, incoming) if files else ImportOutcome()
    return ImportAnswer(
        files=shown,
        written=True,
        sessions={
            name: ImportedTurns(turns=now, new=max(0, now - before)) for name, (now, before) in outcome.turns.items()
        },
        world_id=outcome.world_id,
        lore_changed=outcome.lore_changed,
        memories=outcome.memories,
        notes=tuple(outcome.notes),
    )


async def _import_world(call: Call, sent: ImportFiles, world: WorldPack, answer: ImportAnswer) -> ImportAnswer:
    """Store a pack as the present version of its world, and return `answer` with it."""
    changed = 0 if sent.dry_run else await call.runtime.engine.worlds.store_pack(world)
    described = ReadFile(
        name=world.world_id,
        format=WORLD,
        cards=(),
        books={world.world_id: len(world.lore)},
        chats={},
        memories=0,
        fields=(),
        notes=(),
    )
    return replace(
        answer,
        files=(*answer.files, described),
        world_id=answer.world_id or world.world_id,
        lore_changed=answer.lore_changed + changed,
    )


def _read_files(sent: ImportFiles, folder: Path) -> tuple[tuple[ImportedFile, ...], list[WorldPack]]:
    """Write the sent files into a folder. Return the content of files of other programs, and the world packs.

    Raises ConfigError, CorpusError, WorldPackError and TemplateError.
    """
    if not sent.files:
        raise ConfigError("files is empty; send at least one file.")
    if sent.format is not None and sent.format not in FORMATS:
        raise ConfigError(f"format is {sent.format[:40]!r}; choose from {', '.join(FORMATS)}.")
    tops: dict[str, None] = {}
    for each in sent.files:
        tops[_write(each, folder)] = None
    request = ImportRequest(users=(sent.user,) if sent.user else ())
    files, worlds = list[ImportedFile](), list[WorldPack]()
    for top in tops:
        path = _unpack(folder / top)
        name = sent.format or recognise(path)
        if name == WORLD:
            worlds.append(with_own_digest(with_templates(load_world(path))))
        elif name in FORMATS:
            file = read_imported_file(path, name, request)
            files.append(_name_for_clients(file) if sent.for_clients else file)
        else:
            raise CorpusError(f"{path}: is a {name}; import it with `jacquard memory import`.")
    return tuple(files), worlds


def _name_for_clients(file: ImportedFile) -> ImportedFile:
    """Return a file whose chats have the ids of the sessions in which the proxy looks for them. Raises CorpusError."""
    chats = []
    for chat in file.chats:
        messages = (each for turn in islice(chat.read_turns(), 3) for each in turn.messages)
        if (name := session_of_chat(messages)) is not None:
            chat = replace(chat, name=name, branch_of="")
        chats.append(chat)
    return replace(file, chats=tuple(chats))


def _unpack(path: Path) -> Path:
    """Return the folder with the members of a zip archive, or `path` itself if it is not an archive or if an importer reads it."""
    if path.is_dir() or path.suffix.lower() != ".zip" or holds_export(path):
        return path
    unpacked = path.with_suffix("")
    if unpacked.exists():
        raise ConfigError(f"files: {unpacked.name[:40]!r} is there twice; give each file another name.")
    unpack_archive(path, unpacked, MOST_UNPACKED_BYTES)
    return unpacked


def _write(sent: SentFile, folder: Path) -> str:
    """Write one file below a folder, and return the first part of its name."""
    parts = sent.name.split("/")
    if len(sent.name) > MOST_NAME_CHARS or _WRONG_NAME.search(sent.name) or any(map(_DOTS.fullmatch, parts)):
        raise ConfigError(
            f"files: {sent.name[:40]!r} cannot be the name of a file; send one such as 'Mira.png' or 'notes/boat.md'."
        )
    try:
        data = base64.b64decode(sent.content, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"files: the content of {sent.name[:40]!r} is not base64.") from None
    path = folder.joinpath(*parts)
    try:
        if path.exists():
            raise ConfigError(f"files: {sent.name[:40]!r} is there twice; give each file another name.")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, data, private=True)
    except OSError as error:
        raise ConfigError(
            f"files: {sent.name[:40]!r} cannot be written next to the others ({error.strerror})."
        ) from None
    return parts[0]


def _describe(file: ImportedFile) -> ReadFile:
    return ReadFile(
        name=Path(file.path).name,
        format=file.format,
        cards=tuple(card.name for card in file.cards),
        books={book.name: len(book.entries) for book in file.books},
        chats={chat.name: chat.turn_count for chat in file.chats},
        memories=len(file.memories),
        fields=file.fates,
        notes=file.notes,
    )


@handles
async def export_session(call: Call) -> Response:
    """Return a part of a session as a file. Raises ConfigError for an unknown format."""
    wanted, name, runtime = call.query["format"], call.query["name"], call.runtime
    if wanted not in _EXPORTS:
        raise ConfigError(f"format is {wanted[:40]!r}; choose from {', '.join(_EXPORTS)}.")
    if wanted == "chat":
        data = await render_chat(runtime.store, call.session_id, branch_id=call.query["branch"])
    else:
        world = await runtime.world_of(call.session_id)
        if wanted == "world-info":
            data = await to_thread.run_sync(render_book, world, name)
        else:
            data = await to_thread.run_sync(lambda: render_card(world, name, is_png=wanted == "card-png"))
    return answer_file(data, f"{name or call.session_id}.{_EXPORTS[wanted]}")
