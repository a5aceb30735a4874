"""Imports files of other programs into one world and its sessions.

Repeating an import changes nothing, because the ids of turns and memories are derived from their file. A longer file
adds only its new parts. An import that was stopped continues when it is called again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path

from anyio import to_thread

from jacquard.core.errors import ConfigError
from jacquard.memory.consolidate.consolidator import Progress, ignore_progress
from jacquard.pipeline.worlds import BARE_WORLDS
from jacquard.turns.writing.chat_import import import_chat
from jacquard.wiring.runtime import Runtime
from mnemosyne.chains.session_start import prologue_turn_id
from mnemosyne.core.errors import SessionNotFoundError
from mnemosyne.formats.cards.texts import greetings_of
from mnemosyne.formats.worlds.folder import IN_FOLDER, holds_pack, plan_additions, plan_new_pack
from mnemosyne.formats.worlds.lore import slug_of
from mnemosyne.formats.worlds.pack import ImportedWorld, imported_world_of, join_imports, names_for, pack_files
from mnemosyne.schema.imported_files import CharacterCard, Chat, ImportedFile, ImportedMemory, WorldBook
from mnemosyne.schema.memory import Chain, MemoryEntry, Trust, session_scope
from mnemosyne.schema.record import ImportedTurn, SessionStart
from mnemosyne.schema.session import Author, AuthorKind, Message, Role, SessionHead
from mnemosyne.schema.world import RECALL, WorldPack
from mnemosyne.values import dataclass
from mnemosyne.world import load_world, load_world_files
from mnemosyne.world.reading.files import WORLD_FILE

IMPORTED = "imported-"
"""Prefix of the ids of worlds that consist only of imported files."""
MAIN_BRANCH = "main"
"""Branch of a session to which imported memories belong."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IncomingFiles:
    """Files to import, and the session and world to import them into."""

    files: tuple[ImportedFile, ...]
    session_id: str = ""
    """Session for all chats. If it is empty, each chat that does not branch off from another one gets a session with
    its name.

    If there are no chats, the session has the name of the card, the book or the file.
    """
    folder: Path | None = None
    """Folder of the world pack (None: the world is only in the store)."""
    user_name: str = ""
    """Name of the player in a new world. If this field, `locale` or `activation` is '', the files and the defaults
    decide.
    """
    locale: str = ""
    activation: str = ""

    @property
    def cards(self) -> tuple[CharacterCard, ...]:
        """All character cards, in the order of the files."""
        return tuple(card for file in self.files for card in file.cards)

    @property
    def books(self) -> tuple[WorldBook, ...]:
        """All books (lore of other programs), in the order of the files, without the books inside of cards."""
        return tuple(book for file in self.files for book in file.books)

    @property
    def chats(self) -> tuple[Chat, ...]:
        """All chats. Chats that branch off from another chat come last."""
        chats = [chat for file in self.files for chat in file.chats]
        return tuple(sorted(chats, key=lambda chat: bool(chat.branch_of)))

    @property
    def memories(self) -> tuple[ImportedMemory, ...]:
        """All memories, in the order of the files."""
        return tuple(memory for file in self.files for memory in file.memories)


@dataclass(kw_only=True, slots=True)
class ImportOutcome:
    """Result of an import."""

    world_id: str = ""
    """Id of the world of the sessions ('': the sessions have no world)."""
    lore_changed: int = 0
    """Number of lore entries that changed."""
    written: tuple[Path, ...] = ()
    """Files that were written into the folder of the world."""
    turns: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Session id -> (number of turns now, number of turns before the import)."""
    memories: int = 0
    """Number of memories that were added."""
    notes: list[str] = field(default_factory=list)
    """Sentences for the user."""


async def bring_in(runtime: Runtime, incoming: IncomingFiles, progress: Progress = ignore_progress) -> ImportOutcome:
    """Import files into the store of a runtime, and into the folder of their world if `incoming` names one.

    `progress` is called with the number of turns done and the number of all turns. The search index is not updated.
    Raises ConfigError if a session belongs to another world. Raises CorpusError if a session has another conversation.
    Raises WorldPackError if the world cannot be made or written. Raises StoreError if the store cannot be read or
    written.
    """
    outcome = ImportOutcome()
    sessions = name_sessions(incoming)
    first = next(iter(sessions))
    heads = {session_id: await _find_head(runtime, session_id) for session_id in sessions}
    world = await _bring_in_world(runtime, incoming, heads, first, outcome)
    for session_id, chats in sessions.items():
        await _bring_in_session(runtime, session_id, chats, incoming, world, outcome, progress)
    outcome.memories = await _bring_in_memories(runtime, first, incoming.memories)
    return outcome


def name_sessions(incoming: IncomingFiles) -> dict[str, list[Chat]]:
    """Return the chats of each session, in order.

    If a session is named it gets all of them; otherwise each chat that does not branch off from another gets a session.
    """
    if incoming.session_id or not incoming.chats:
        named = [card.name for card in incoming.cards] + [book.name for book in incoming.books]
        files = [Path(file.path).stem for file in incoming.files]
        session_id = incoming.session_id or next(iter((*named, *files)), "imported")
        return {session_id: list(incoming.chats)}
    sessions: dict[str, list[Chat]] = {}
    for chat in incoming.chats:
        sessions.setdefault(chat.branch_of if chat.branch_of in sessions else chat.name, []).append(chat)
    return sessions


async def _find_head(runtime: Runtime, session_id: str) -> SessionHead | None:
    try:
        return await runtime.store.head(session_id)
    except SessionNotFoundError:
        return None


async def _bring_in_world(
    runtime: Runtime,
    incoming: IncomingFiles,
    heads: Mapping[str, SessionHead | None],
    session_id: str,
    outcome: ImportOutcome,
) -> WorldPack | None:
    """Return the world of the sessions as stored now, with the lore of the files added. None: there is no world."""
    head, folder = heads[session_id], incoming.folder
    if folder is not None:
        if await to_thread.run_sync(holds_pack, folder):
            made = None
        else:
            new_id = slug_of(folder.resolve().name)
            made = await _join_stored_world(runtime, incoming, head, new_id) or _describe_new(incoming, new_id)
        world = await to_thread.run_sync(_write_folder, incoming, made, heads, outcome)
    else:
        made = await _join_stored_world(runtime, incoming, head, f"{IMPORTED}{slug_of(session_id)}")
        if made is None:
            return None if head is None or head.world_id in BARE_WORLDS else await runtime.world_of(session_id)
        world = await to_thread.run_sync(_load_made, made, not incoming.chats)
    outcome.world_id = world.world_id
    outcome.notes += _describe_activation(incoming, world)
    if await runtime.store.world_digest(world.world_id) != world.digest:
        outcome.lore_changed = await runtime.engine.worlds.store_pack(world)
    return world


def _write_folder(
    incoming: IncomingFiles,
    made: ImportedWorld | None,
    heads: Mapping[str, SessionHead | None],
    outcome: ImportOutcome,
) -> WorldPack:
    """Write the imported lore into the pack in the folder, or make the folder the pack of a new world; return the pack.

    Raises ConfigError, with nothing written, if one of the sessions is in another world.
    """
    folder = incoming.folder
    assert folder is not None
    if made is not None:
        world, world_id = None, made.world_id
        change = plan_new_pack(folder, pack_files(made, has_greeting=not incoming.chats))
    else:
        world = load_world(folder)
        world_id, change = world.world_id, plan_additions(folder, world, incoming.cards, incoming.books)
    for session_id, head in heads.items():
        if head is not None and head.world_id not in (*BARE_WORLDS, world_id):
            raise ConfigError(
                f"Session {session_id!r} is in world {head.world_id!r}, and {folder} holds world {world_id!r}. Name another "
                "session, or another folder."
            )
    outcome.written = change.write()
    return load_world(folder) if world is None or change.files else world


def _describe_activation(incoming: IncomingFiles, world: WorldPack) -> list[str]:
    if not incoming.activation:
        return []
    if incoming.activation == world.activation:
        return [f"The entries reach prompts by {world.activation} from now on."]
    return [
        f"The entries reach prompts by {world.activation}, as {incoming.folder}/{WORLD_FILE} says; write "
        f"`activation: {incoming.activation}` there to change it."
    ]


async def _join_stored_world(
    runtime: Runtime, incoming: IncomingFiles, head: SessionHead | None, new_id: str
) -> ImportedWorld | None:
    """Return the session's world with the lore of the files added, or a new world with the id `new_id`.

    None if the files have no lore, or if an author wrote the session's world. Raises ConfigError if the files have lore
    and the session's world was written by an author, or is in a folder in which it may have been edited.
    """
    brings_lore = bool(incoming.cards or incoming.books)
    if head is None or head.world_id in BARE_WORLDS:
        return _describe_new(incoming, new_id) if brings_lore else None
    if not head.world_id.startswith(IMPORTED):
        if brings_lore:
            raise ConfigError(
                f"Session {head.session_id!r} is in world {head.world_id!r}, which was not imported. Name the folder of its pack "
                "with --world DIR, so that what is imported is written there; or choose another session."
            )
        return None
    world = await runtime.world_of(head.session_id)
    if brings_lore and world.imported.get(IN_FOLDER) is True:
        raise ConfigError(
            f"The world of session {head.session_id!r} was written to a folder, in which it can be edited. Name that folder with "
            "--world DIR."
        )
    before = imported_world_of(world)
    told = _describe_new(incoming, head.world_id)
    return replace(
        join_imports(before, incoming.cards, incoming.books),
        user_name=told.user_name or before.user_name,
        locale=incoming.locale or before.locale,
        activation=incoming.activation or before.activation,
        authors_note=told.authors_note or before.authors_note,
    )


def _describe_new(incoming: IncomingFiles, world_id: str) -> ImportedWorld:
    chats = incoming.chats
    return join_imports(
        ImportedWorld(
            world_id=world_id,
            locale=incoming.locale,
            activation=incoming.activation or RECALL,
            user_name=incoming.user_name or next((chat.user_name for chat in chats if chat.user_name), ""),
            authors_note=next((chat.authors_note for chat in chats if chat.authors_note is not None), None),
        ),
        incoming.cards,
        incoming.books,
    )


def _load_made(made: ImportedWorld, has_greeting: bool) -> WorldPack:
    return load_world_files(pack_files(made, has_greeting=has_greeting))


async def _bring_in_session(
    runtime: Runtime,
    session_id: str,
    chats: Sequence[Chat],
    incoming: IncomingFiles,
    world: WorldPack | None,
    outcome: ImportOutcome,
    progress: Progress,
) -> None:
    """Create a missing session, and import its chats, one after the other."""
    head = await _find_head(runtime, session_id)
    before = 0 if head is None else head.depth
    if head is None and not chats and world is not None:
        head = await runtime.engine.start_session(session_id, world)
        await _bring_in_greetings(runtime, session_id, incoming, world)
    elif head is None:
        head = await runtime.store.create_session(_empty_start(session_id, chats, incoming, world))
    elif world is not None and head.world_id != world.world_id:
        head = await runtime.store.adopt_world(
            session_id, world.world_id, world.locale, world.state, instead_of=BARE_WORLDS
        )
    for chat in chats:
        if await _is_opening_only(runtime, session_id):
            # The session's greeting is in the chat too.
            await runtime.store.fork(session_id, None, f"chat-{slug_of(chat.name)}")
        report = partial(_report, progress, chat.turn_count)
        await import_chat(runtime.store, session_id, chat.read_turns(), progress=report)
        head = await runtime.store.head(session_id)
    outcome.turns[session_id] = (head.depth, before)


def _empty_start(
    session_id: str, chats: Sequence[Chat], incoming: IncomingFiles, world: WorldPack | None
) -> SessionStart:
    return SessionStart(
        session_id=session_id,
        world_id="" if world is None else world.world_id,
        locale=incoming.locale or "en" if world is None else world.locale,
        state={} if world is None else world.state,
        at=next((chat.started_at for chat in chats if chat.started_at is not None), None),
    )


def _report(progress: Progress, total: int, done: int) -> None:
    progress(done, total)


async def _is_opening_only(runtime: Runtime, session_id: str) -> bool:
    """Return whether a session has only the opening of its world."""
    head = await runtime.store.head(session_id)
    return head.depth == 1 and head.turn_id == prologue_turn_id(1)


async def _bring_in_greetings(runtime: Runtime, session_id: str, incoming: IncomingFiles, world: WorldPack) -> None:
    """Give a new session the other greetings of its character as branches `greeting-2`, `greeting-3`, …"""
    cards = incoming.cards
    if not cards or not world.prologue:
        return
    names = names_for(imported_world_of(world))
    author = Author(kind=AuthorKind.AGENT, id=cards[0].nickname or cards[0].name)
    for number, text in enumerate(greetings_of(cards[0], user=names.user)[1:], start=2):
        turn_id = f"greeting-{number}"
        message = Message(role=Role.ASSISTANT, content=text, message_id=f"{turn_id}.a", author=author)
        await runtime.store.fork(session_id, None, turn_id)
        await runtime.store.append_turns(session_id, (ImportedTurn(turn_id=turn_id, messages=(message,)),))
    if len(greetings_of(cards[0], user=names.user)) > 1:
        await runtime.store.switch(session_id, MAIN_BRANCH)


async def _bring_in_memories(runtime: Runtime, session_id: str, memories: Sequence[ImportedMemory]) -> int:
    """Add memories that the session does not have; return their number."""
    scope = session_scope(session_id)
    entries = [_to_entry(memory, scope) for memory in memories]
    known = {entry.entry_id for entry in await runtime.store.entries(scope, [entry.entry_id for entry in entries])}
    new = [entry for entry in entries if entry.entry_id not in known]
    if new:
        await runtime.store.append_turns(session_id, (), new)
    return len(new)


def _to_entry(memory: ImportedMemory, scope: str) -> MemoryEntry:
    return MemoryEntry(
        entry_id=f"memory-{slug_of(memory.memory_id)}",
        scope=scope,
        chain=Chain.LORE,
        kind="axiom" if memory.always else "encyclopedia",
        text=memory.text,
        title=memory.title,
        keys=memory.keys,
        tags=memory.tags,
        at=memory.at,
        branch_id=MAIN_BRANCH,
        depth=0,
        trust=Trust.USER,
        metadata=dict(memory.metadata),
    )
