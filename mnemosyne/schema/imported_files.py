"""Contents of other programs' files in one form: books, cards, chats and memories, and the fate of each field.

An entry of a book keeps the names that SillyTavern's world info has for its fields, whatever program wrote it, because
activation and export need all of them; all other contents of a format are kept unchanged.
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
    """Fate of a field, with `*` for the items of lists and mappings: `entries.*.probability`."""

    field: str
    fate: Fate
    count: int
    """Number of its values that are not empty."""
    note: str = ""
    """Change, or reason why it is not supported; a field that is kept for export has the note for that."""


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
    """A book of lore: a world info file, a lorebook, or the book of a card."""

    name: str
    dialect: str
    """Name of the format that it was read from."""
    entries: tuple[BookEntry, ...]
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Fields of the book outside of its entries, in their form in the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DepthPrompt:
    """Character's note of a card: a text for the place before the newest `depth` messages."""

    text: str
    depth: int = 4
    role: str = "system"


@dataclass(frozen=True, kw_only=True, slots=True)
class CharacterCard:
    """A character card, its texts as written (macros too)."""

    spec: str
    """`v1`, `chara_card_v2` or `chara_card_v3`."""
    name: str
    document: Mapping[str, Any]
    """The whole card, for an export that loses nothing."""
    file_name: str = ""
    """Name of the file without its ending, by which character filters of world info name the character."""
    nickname: str = ""
    """Takes the place of `{{char}}`."""
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
    """Bytes of the PNG that carried the card, if one did."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorsNote:
    """The author's note of a chat: a text shown in every `interval`th turn (0: never), before the newest `depth` messages."""

    text: str
    interval: int = 1
    depth: int = 4
    role: str = "system"


@dataclass(frozen=True, kw_only=True, slots=True)
class Chat:
    """A conversation of another program. A turn begins with each message of the user; other replies to it are its
    `alternatives`.
    """

    name: str
    read_turns: Callable[[], Iterator[ImportedTurn]]
    """Reads the file once more, from its beginning, and yields turns in order with few of them in memory; each call
    gives the same turns with the same ids.
    """
    turn_count: int
    """Number of turns that it yields."""
    user_name: str = ""
    character_names: tuple[str, ...] = ()
    started_at: datetime | None = None
    header: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Data of the file on the whole chat."""
    authors_note: AuthorsNote | None = None
    branch_of: str = ""
    """Name of the chat whose beginning this one shares."""


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
    """Contents of one file or folder."""

    path: str
    format: str
    """Name of its format, as for `jacquard memory import --format`."""
    books: tuple[WorldBook, ...] = ()
    cards: tuple[CharacterCard, ...] = ()
    chats: tuple[Chat, ...] = ()
    memories: tuple[ImportedMemory, ...] = ()
    fates: tuple[FieldFate, ...] = ()
    """Fate of each field, in the order of the file."""
    notes: tuple[str, ...] = ()
    """Sentences on the whole file."""
