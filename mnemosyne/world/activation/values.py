"""Defines the values for the activation of world info: entries, settings, scanned texts, timed effects and results.

World info is a book of entries; an entry's text is put into the prompt when one of its keys is found in the chat. A timed
effect keeps an entry active, or inactive, for several messages. Fields have SillyTavern's names in snake case. Units are
messages, passes over the entries, and tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import IntEnum, StrEnum
from typing import Protocol

from mnemosyne.schema.memory import EMPTY
from mnemosyne.values import dataclass


class SelectiveLogic(IntEnum):
    """Condition on the secondary keys of an entry. The condition is checked after a primary key was found.

    AND_ANY: at least one is found. NOT_ALL: at least one is missing. NOT_ANY: none is found. AND_ALL: all are found.
    """

    AND_ANY = 0
    NOT_ALL = 1
    NOT_ANY = 2
    AND_ALL = 3


class WorldInfoPosition(IntEnum):
    """Place in the prompt for the text of an entry.

    CHAR is the description of the character, AN the author's note. AT_DEPTH is between the messages. OUTLET is a place
    that is marked with the entry's `outlet_name`.
    """

    BEFORE_CHAR = 0
    AFTER_CHAR = 1
    AN_TOP = 2
    AN_BOTTOM = 3
    AT_DEPTH = 4
    EXAMPLES_TOP = 5
    EXAMPLES_BOTTOM = 6
    OUTLET = 7


class BookSource(StrEnum):
    """Source of a book in a chat. The source decides the order of the book's entries."""

    CHAT = "chat"
    PERSONA = "persona"
    CHARACTER = "character"
    GLOBAL = "global"


class InsertionStrategy(IntEnum):
    """Order between the entries of global books and the entries of the character's books."""

    EVENLY = 0
    CHARACTER_FIRST = 1
    GLOBAL_FIRST = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class CharacterFilter:
    """Characters that an entry is for. Each is named by the file name of its card (`names`) or by a tag (`tags`).

    If `is_exclude`, the entry is for all other characters instead.
    """

    names: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    is_exclude: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldInfoEntry:
    """One entry, with SillyTavern's defaults. `world` and `uid` together are unique.

    If `scan_depth`, `case_sensitive`, `match_whole_words` or `use_group_scoring` is None, the field of the same name in
    `WorldInfoSettings` decides.
    """

    uid: str
    world: str
    """Name of the book that contains the entry."""
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
    """Level of recursion from which on the entry can be activated (0: from the first pass on)."""
    group: str = ""
    group_override: bool = False
    group_weight: int = 100
    use_group_scoring: bool | None = None
    scan_depth: int | None = None
    case_sensitive: bool | None = None
    match_whole_words: bool | None = None
    sticky: int = 0
    """Number of messages for which the entry stays active. `cooldown` and `delay` are numbers of messages, too: how long
    the entry is inactive afterwards, and how long the chat must be first.
    """
    cooldown: int = 0
    delay: int = 0
    ignore_budget: bool = False
    triggers: tuple[str, ...] = ()
    match_fields: tuple[str, ...] = ()
    """Names of the texts in `ScanContext.fields` that are scanned together with the messages."""
    character_filter: CharacterFilter | None = None
    decorators: tuple[str, ...] = ()
    """Known decorators of the entry: lines at the top of its text that begin with `@@`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldInfoSettings:
    """Global settings of world info, with SillyTavern's defaults.

    If `min_activations`, `min_activations_depth_max` or `max_recursion_steps` is 0, that limit does not apply.
    """

    scan_depth: int = 2
    context_tokens: int = 8192
    budget_percent: int = 25
    """Percentage of `context_tokens`."""
    budget_cap: int = 0
    """Upper limit of the budget in tokens (0: no limit)."""
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
    """A message of the chat that is scanned."""

    name: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedEffect:
    """An effect on an entry that lasts for several messages."""

    entry_hash: str
    """Hash of the entry at the time of its activation."""
    start: int
    """Number of messages in the chat at the activation."""
    end: int
    """Length of the chat, in messages, at which the effect ends."""
    is_protected: bool = False
    """If true, the effect continues although the chat has not grown beyond `start`. If false, the effect is dropped then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedEffects:
    """The effects that last for several messages. The keys are names of entries, `BOOK.UID`.

    `sticky` keeps an entry active; `cooldown` keeps it inactive.
    """

    sticky: Mapping[str, TimedEffect] = field(default_factory=lambda: EMPTY)
    cooldown: Mapping[str, TimedEffect] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanContext:
    """Data of a scan, in addition to entries and settings."""

    messages: tuple[ScannedMessage, ...]
    """Messages, newest first."""
    character_file: str = ""
    """File name of the character's card. A `CharacterFilter` is compared with this name and with `character_tags`."""
    character_tags: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Further texts, by name: `persona_description`, `character_description`, `character_personality`,
    `character_depth_prompt`, `scenario`, `creator_notes`. A text is scanned for the entries that name it in `match_fields`.
    """
    trigger: str = "normal"
    """Reason for the reply: `normal`, `swipe`, `regenerate`, `continue`, `impersonate` or `quiet`."""
    chat_length: int | None = None
    """Number of messages in the whole chat. If None, `messages` is the whole chat."""
    effects: TimedEffects = TimedEffects()


class Roll(Protocol):
    """Source of random numbers for a scan. The same call gives the same number again when a turn is replayed."""

    def __call__(self, purpose: str, name: str) -> float:
        """Return a number from 0 up to, but not including, 1.

        If `purpose` is `probability`, the number decides whether the entry `name` is shown. If `purpose` is `group`, the
        number decides which entry of the group `name` wins.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ActivatedEntry:
    """An activated entry, with the reason."""

    entry: WorldInfoEntry
    pass_number: int
    """Number of the pass that activated the entry, from 1."""
    reason: str
    """`constant`, `key`, `sticky`, `decorator` or `vector`."""
    key: str = ""
    """Key that was found."""
    woken_by: str = ""
    """Name `BOOK.UID` of the entry whose text contains the key. Empty if the key is in a message or a field."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RejectedEntry:
    """An entry that was activated but is not shown, or that was not allowed to be activated."""

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
    """Effects that last for the next messages."""
    tokens: int = 0
    """Tokens of all activated texts."""
    passes: int = 0


CountTokens = Callable[[str], int]
