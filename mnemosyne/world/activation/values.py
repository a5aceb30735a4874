"""Values of the activation of world info: entries, settings, scanned texts, lasting effects, and results.

The names are those of SillyTavern's files in snake case; units are messages, passes and tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Protocol

from mnemosyne.schema.memory import EMPTY


class SelectiveLogic(IntEnum):
    """Logic of secondary keys once a primary key was found."""

    AND_ANY = 0
    NOT_ALL = 1
    NOT_ANY = 2
    AND_ALL = 3


class WorldInfoPosition(IntEnum):
    """Place for the text of an entry."""

    BEFORE_CHAR = 0
    AFTER_CHAR = 1
    AN_TOP = 2
    AN_BOTTOM = 3
    AT_DEPTH = 4
    EXAMPLES_TOP = 5
    EXAMPLES_BOTTOM = 6
    OUTLET = 7


class BookSource(StrEnum):
    """Source of a book in a chat; it decides the order of its entries."""

    CHAT = "chat"
    PERSONA = "persona"
    CHARACTER = "character"
    GLOBAL = "global"


class InsertionStrategy(IntEnum):
    """Order of the entries of global books and of the character's."""

    EVENLY = 0
    CHARACTER_FIRST = 1
    GLOBAL_FIRST = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class CharacterFilter:
    """Characters that an entry is for: by the name of the card's file, or by a tag. `is_exclude` inverts it."""

    names: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    is_exclude: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldInfoEntry:
    """One entry, with SillyTavern's defaults; `world` and `uid` together are unique.

    None in `scan_depth`, `case_sensitive`, `match_whole_words` and `use_group_scoring` means the setting.
    """

    uid: str
    world: str
    """Name of its book."""
    source: BookSource = BookSource.CHARACTER
    key: tuple[str, ...] = ()
    key_secondary: tuple[str, ...] = ()
    content: str = ""
    """Text without the decorators."""
    comment: str = ""
    selective: bool = True
    selective_logic: SelectiveLogic = SelectiveLogic.AND_ANY
    constant: bool = False
    disable: bool = False
    order: int = 100
    position: WorldInfoPosition = WorldInfoPosition.BEFORE_CHAR
    depth: int = 4
    role: int = 0
    outlet_name: str = ""
    probability: float = 100
    use_probability: bool = True
    exclude_recursion: bool = False
    prevent_recursion: bool = False
    delay_until_recursion: int = 0
    """A level (0: none)."""
    group: str = ""
    group_override: bool = False
    group_weight: int = 100
    use_group_scoring: bool | None = None
    scan_depth: int | None = None
    case_sensitive: bool | None = None
    match_whole_words: bool | None = None
    sticky: int = 0
    """Number of messages, as `cooldown` and `delay`."""
    cooldown: int = 0
    delay: int = 0
    ignore_budget: bool = False
    triggers: tuple[str, ...] = ()
    match_fields: tuple[str, ...] = ()
    """Names in `ScanContext.fields` whose texts are scanned with the messages."""
    character_filter: CharacterFilter | None = None
    decorators: tuple[str, ...] = ()
    """The first lines of the text that begin with `@@`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldInfoSettings:
    """Global settings of world info, with SillyTavern's defaults."""

    scan_depth: int = 2
    context_tokens: int = 8192
    budget_percent: int = 25
    """Percentage of `context_tokens`."""
    budget_cap: int = 0
    """Upper limit in tokens (0: none)."""
    include_names: bool = True
    recursive: bool = True
    case_sensitive: bool = False
    match_whole_words: bool = True
    use_group_scoring: bool = False
    min_activations: int = 0
    min_activations_depth_max: int = 0
    max_recursion_steps: int = 0
    insertion_strategy: InsertionStrategy = InsertionStrategy.CHARACTER_FIRST


@dataclass(frozen=True, kw_only=True, slots=True)
class ScannedMessage:
    """A message of the chat for the scan: speaker and text."""

    name: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedEffect:
    """An effect that lasts over messages."""

    entry_hash: str
    """Hash of the entry at its activation."""
    start: int
    """Length of the chat at activation."""
    end: int
    """Last length of the chat at which it holds."""
    is_protected: bool = False
    """Whether it outlives a chat that has not grown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedEffects:
    """The effects that last over messages, by `world.uid`."""

    sticky: Mapping[str, TimedEffect] = field(default_factory=lambda: EMPTY)
    cooldown: Mapping[str, TimedEffect] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanContext:
    """Input of a scan in addition to entries and settings."""

    messages: tuple[ScannedMessage, ...]
    """Newest first."""
    character_file: str = ""
    """Name for character filters, with `character_tags`."""
    character_tags: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Texts that entries may have scanned too, by name (`persona_description`, `character_description`,
    `character_personality`, `character_depth_prompt`, `scenario`, `creator_notes`).
    """
    trigger: str = "normal"
    """Reason for the reply: `normal`, `swipe`, `regenerate`, `continue`, `impersonate` or `quiet`."""
    chat_length: int | None = None
    """Number of all messages (None: of `messages`)."""
    effects: TimedEffects = TimedEffects()


class Roll(Protocol):
    """Random numbers of a scan: the same call gives the same number when a turn is replayed."""

    def __call__(self, purpose: str, name: str) -> float:
        """Return a number in 0..1 (1 not included) for an entry's `probability` or for the winner of a `group`."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ActivatedEntry:
    """An activated entry."""

    entry: WorldInfoEntry
    pass_number: int
    """From 1."""
    reason: str
    """`constant`, `key`, `sticky`, `decorator` or `vector`."""
    key: str = ""
    """The found key."""
    woken_by: str = ""
    """`world.uid` of the entry whose text has the key (empty: it is in a message or a field)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RejectedEntry:
    """An entry that was activated and is not shown, or that could not be activated."""

    entry: WorldInfoEntry
    reason: str
    """Code: `group`, `probability`, `budget`, `cooldown`, `delay`, `filter` or `trigger`."""
    detail: str = ""
    """Sentence on the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Activation:
    """Result of a scan."""

    active: tuple[ActivatedEntry, ...] = ()
    """Entries in the order of their activation."""
    rejected: tuple[RejectedEntry, ...] = ()
    effects: TimedEffects = TimedEffects()
    """Effects that last from here on."""
    tokens: int = 0
    """Tokens of the texts."""
    passes: int = 0


CountTokens = Callable[[str], int]
