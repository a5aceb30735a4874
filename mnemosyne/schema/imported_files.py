"""Contents of files of other programs, in one form for all of them: books, cards, chats and memories, with the fate of each field.

Values only. An entry of a book keeps the names that SillyTavern's world info has for its fields, whatever program wrote it, because
activation and export need all of them; all other fields of a format are kept unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.record import ImportedTurn

FORMAT_NAMES = (
    "world-info",
    "lorebook",
    "risu",
    "agnai",
    "novelai",
    "kobold",
    "ai-dungeon",
    "card",
    "card-png",
    "charx",
    "chat",
    "foreign-chat",
    "chatgpt",
    "claude",
    "open-webui",
    "librechat",
    "cherry-studio",
    "openai",
    "transcript",
    "obsidian",
    "markdown",
    "mem0",
    "langchain",
    "llamaindex",
)
"""The names of the formats that `jacquard memory import` reads, in the order in which help lists them."""


class Fate(StrEnum):
    """Fate of a field of an imported file."""

    KEPT = "kept"
    CHANGED = "changed"
    NOT_SUPPORTED = "not supported"


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldFate:
    """Fate of a field, by its path with `*` for the items of lists and mappings: `entries.*.probability`.

    `count` is how many values it had that are not empty. `note` says what changed, or why it is not supported; a field that is
    kept for export says so.
    """

    field: str
    fate: Fate
    count: int
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class BookEntry:
    """An entry of a book of lore. `uid` is unique in the book.

    `fields` are JSON values under the names of a native entry of SillyTavern's world info (`key`, `keysecondary`, `content`,
    `comment`, `constant`, `order`, …), with the types that they have there; one that the file leaves out is absent, and one that
    SillyTavern does not know is kept under its own name.
    """

    uid: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldBook:
    """A book of lore: a world info file, a lorebook, or the book of a card.

    `dialect` names the format that it was read from. `extra` are the other fields of the book, as the file has them.
    """

    name: str
    dialect: str
    entries: tuple[BookEntry, ...]
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class DepthPrompt:
    """The character's note of a card: a text shown before the newest `depth` messages."""

    text: str
    depth: int = 4
    role: str = "system"


@dataclass(frozen=True, kw_only=True, slots=True)
class CharacterCard:
    """A character card, its texts as written (macros too).

    `spec` is `v1`, `chara_card_v2` or `chara_card_v3`. `document` is the whole card as it was read, for an export that loses
    nothing. `file_name` is the name of the file without its ending, by which character filters of world info name the character.
    `nickname` takes the place of `{{char}}`. `picture` are the bytes of the PNG that carried the card, if one did.
    """

    spec: str
    name: str
    document: Mapping[str, Any]
    file_name: str = ""
    nickname: str = ""
    description: str = ""
    personality: str = ""
    scenario: str = ""
    first_message: str = ""
    example_messages: str = ""
    alternate_greetings: tuple[str, ...] = ()
    group_only_greetings: tuple[str, ...] = ()
    system_prompt: str = ""
    post_history_instructions: str = ""
    creator_notes: str = ""
    tags: tuple[str, ...] = ()
    depth_prompt: DepthPrompt | None = None
    book: WorldBook | None = None
    picture: bytes | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorsNote:
    """The author's note of a chat: a text shown in every `interval`th turn (0: never), before the newest `depth` messages."""

    text: str
    interval: int = 1
    depth: int = 4
    role: str = "system"


@dataclass(frozen=True, kw_only=True, slots=True)
class Chat:
    """A conversation of another program.

    `read_turns` reads the file once more, from its beginning, and yields turns in order with few of them in memory; each call gives
    the same turns with the same ids. A turn begins with each message of the user; other replies to it are its `alternatives`.
    `turn_count` is how many it yields. `header` is what the file says of the whole chat. `branch_of` names the chat whose beginning
    this one shares.
    """

    name: str
    read_turns: Callable[[], Iterator[ImportedTurn]]
    turn_count: int
    user_name: str = ""
    character_names: tuple[str, ...] = ()
    started_at: datetime | None = None
    header: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    authors_note: AuthorsNote | None = None
    branch_of: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedMemory:
    """A memory or a note of another program: text that is recalled by relevance. `memory_id` is unique in its file."""

    memory_id: str
    text: str
    title: str = ""
    keys: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    at: datetime | None = None
    user_id: str = ""
    always: bool = False
    """Whether every prompt shows it."""
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedFile:
    """Content of one file or folder. `format` is the name of its format, as `jacquard memory import --format` takes it.

    `fates` say what becomes of each field, in the order of the file; `notes` are sentences on the whole file.
    """

    path: str
    format: str
    books: tuple[WorldBook, ...] = ()
    cards: tuple[CharacterCard, ...] = ()
    chats: tuple[Chat, ...] = ()
    memories: tuple[ImportedMemory, ...] = ()
    fates: tuple[FieldFate, ...] = ()
    notes: tuple[str, ...] = ()
