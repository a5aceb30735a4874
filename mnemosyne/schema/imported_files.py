"""Defines the values that readers of other programs' files return: books of lore, character cards, chats and memories.

Whatever program wrote a book, the fields of its entries have the names of SillyTavern's world info, because activation
and export need them. All other data of a file are kept unchanged. `FieldFate` reports what became of each field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.record import ImportedTurn
from mnemosyne.values import dataclass

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
"""Names of the formats that `jacquard memory import` reads, in the order of its help text."""


class Fate(StrEnum):
    """Result of importing one field of a file."""

    KEPT = "kept"
    CHANGED = "changed"
    NOT_SUPPORTED = "not supported"


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldFate:
    """Result of importing one field. In the path `field`, `*` stands for any item of a list or mapping: `entries.*.probability`."""

    field: str
    fate: Fate
    count: int
    """Number of values of the field that are not empty."""
    note: str = ""
    """Note on the result: the change, or the reason why the field is not supported, or that it is kept only for export."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BookEntry:
    """An entry of a book of lore. `uid` is unique in the book.

    `fields` has JSON values with the names and types of SillyTavern's world info (`key`, `keysecondary`, `content`, `comment`,
    `constant`, `order`, …). A field that the file leaves out is absent. A field that SillyTavern does not know keeps its own name.
    """

    uid: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldBook:
    """A book of lore: a world info file, a lorebook, or the book of a card."""

    name: str
    dialect: str
    """Name of the format of the file."""
    entries: tuple[BookEntry, ...]
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Fields of the book itself (not of its entries), unchanged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DepthPrompt:
    """A character's note in a card. Its text is shown in the prompt before the newest `depth` messages."""

    text: str
    depth: int = 4
    role: str = "system"


@dataclass(frozen=True, kw_only=True, slots=True)
class CharacterCard:
    """A character card. Its texts are unchanged and still contain macros such as `{{char}}`."""

    spec: str
    """Version of the card's format: `v1`, `chara_card_v2` or `chara_card_v3`."""
    name: str
    document: Mapping[str, Any]
    """The whole card, for an export that loses nothing."""
    file_name: str = ""
    """Name of the file without its ending. Character filters of world info use it as the name of the character."""
    nickname: str = ""
    """Name that replaces `{{char}}`."""
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
    """Bytes of the PNG file that contained the card (None: the card was not in a PNG file)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorsNote:
    """The author's note of a chat. Its text is shown in every `interval`th turn (0: never), before the newest `depth` messages."""

    text: str
    interval: int = 1
    depth: int = 4
    role: str = "system"


@dataclass(frozen=True, kw_only=True, slots=True)
class Chat:
    """A conversation of another program. Each message of the user begins a turn. Other replies to the message are the
    `alternatives` of the turn.
    """

    name: str
    read_turns: Callable[[], Iterator[ImportedTurn]]
    """Reads the file again from its beginning, and yields its turns in order. Only few turns are in memory at a time. Each call
    yields the same turns with the same ids.
    """
    turn_count: int
    """Number of turns that `read_turns` yields."""
    user_name: str = ""
    character_names: tuple[str, ...] = ()
    started_at: datetime | None = None
    header: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Data in the file about the whole chat."""
    authors_note: AuthorsNote | None = None
    branch_of: str = ""
    """Name of another chat that begins with the same turns (empty: none)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedMemory:
    """A memory or a note of another program. Its text is recalled by relevance. `memory_id` is unique in its file."""

    memory_id: str
    text: str
    title: str = ""
    keys: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    at: datetime | None = None
    user_id: str = ""
    always: bool = False
    """Whether every prompt shows the memory."""
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedFile:
    """Contents of one imported file or folder."""

    path: str
    format: str
    """Name of its format (one of FORMAT_NAMES)."""
    books: tuple[WorldBook, ...] = ()
    cards: tuple[CharacterCard, ...] = ()
    chats: tuple[Chat, ...] = ()
    memories: tuple[ImportedMemory, ...] = ()
    fates: tuple[FieldFate, ...] = ()
    """Results of importing the fields, in the order of the file."""
    notes: tuple[str, ...] = ()
    """Sentences about the whole file."""
