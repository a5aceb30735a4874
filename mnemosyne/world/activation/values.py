"""Values of the activation of world info: entries, settings, what is scanned, what lasts over messages, and what is set off.

Values only. The names are those of SillyTavern's files in snake case; units are messages, passes and tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Protocol

from mnemosyne.schema.memory import EMPTY


class SelectiveLogic(IntEnum):
    """How secondary keys decide once a primary key was found."""

    AND_ANY = 0
    NOT_ALL = 1
    NOT_ANY = 2
    AND_ALL = 3


class WorldInfoPosition(IntEnum):
    """Where the text of an entry stands."""

    BEFORE_CHAR = 0
    AFTER_CHAR = 1
    AN_TOP = 2
    AN_BOTTOM = 3
    AT_DEPTH = 4
    EXAMPLES_TOP = 5
    EXAMPLES_BOTTOM = 6
    OUTLET = 7


class BookSource(StrEnum):
    """From where a book comes into a chat; it decides the order of its entries."""

    CHAT = "chat"
    PERSONA = "persona"
    CHARACTER = "character"
    GLOBAL = "global"


class InsertionStrategy(IntEnum):
    """How the entries of global books and of the character's are put in order."""

    EVENLY = 0
    CHARACTER_FIRST = 1
    GLOBAL_FIRST = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class CharacterFilter:
    """For which characters an entry is: by the name of the card's file, or by a tag. `is_exclude` turns it round."""

    names: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    is_exclude: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldInfoEntry:
    """One entry, with SillyTavern's defaults. `world` is the name of its book; `world` and `uid` together are unique.

    None in `scan_depth`, `case_sensitive`, `match_whole_words` and `use_group_scoring` means the setting. `sticky`, `cooldown` and
    `delay` count messages. `delay_until_recursion` is a level (0: none). `match_fields` are names in
    `ScanContext.fields` whose texts are scanned with the messages. `decorators` are the first lines of the text that begin with
    `@@`; `content` is without them.
    """

    uid: str
    world: str
    source: BookSource = BookSource.CHARACTER
    key: tuple[str, ...] = ()
    key_secondary: tuple[str, ...] = ()
    content: str = ""
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
    group: str = ""
    group_override: bool = False
    group_weight: int = 100
    use_group_scoring: bool | None = None
    scan_depth: int | None = None
    case_sensitive: bool | None = None
    match_whole_words: bool | None = None
    sticky: int = 0
    cooldown: int = 0
    delay: int = 0
    ignore_budget: bool = False
    triggers: tuple[str, ...] = ()
    match_fields: tuple[str, ...] = ()
    character_filter: CharacterFilter | None = None
    decorators: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldInfoSettings:
    """The global settings of world info, with the defaults that SillyTavern ships.

    `budget_percent` is of `context_tokens`; `budget_cap` is an upper limit in tokens (0: none).
    """

    scan_depth: int = 2
    context_tokens: int = 8192
    budget_percent: int = 25
    budget_cap: int = 0
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
    """A message of the chat as it is scanned: who spoke, and what."""

    name: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedEffect:
    """An effect that lasts: from `start` (the length of the chat at activation) up to and including `end`. `entry_hash` is that of
    the entry then; `is_protected` effects outlive a chat that has not grown.
    """

    entry_hash: str
    start: int
    end: int
    is_protected: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedEffects:
    """The effects that last over messages, by `world.uid`."""

    sticky: Mapping[str, TimedEffect] = field(default_factory=lambda: EMPTY)
    cooldown: Mapping[str, TimedEffect] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanContext:
    """What a scan reads beside entries and settings.

    `messages` are newest first. `character_file` and `character_tags` are what character filters look at. `fields` are the texts
    that entries may have scanned too, by name (`persona_description`, `character_description`, `character_personality`,
    `character_depth_prompt`, `scenario`, `creator_notes`). `trigger` is why a reply is made: `normal`, `swipe`, `regenerate`,
    `continue`, `impersonate` or `quiet`. `chat_length` counts all messages (None: `messages`).
    """

    messages: tuple[ScannedMessage, ...]
    character_file: str = ""
    character_tags: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    trigger: str = "normal"
    chat_length: int | None = None
    effects: TimedEffects = TimedEffects()


class Roll(Protocol):
    """Random numbers of a scan: the same call gives the same number when a turn is replayed."""

    def __call__(self, purpose: str, name: str) -> float:
        """Return a number in 0..1 (1 not included) for an entry's `probability` or for the winner of a `group`."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Activated:
    """An entry that was set off: in which `pass_number` (from 1) and why.

    `reason` is `constant`, `key`, `sticky`, `decorator` or `vector`; `key` is the key that was found, and `woken_by` the
    `world.uid` of the entry whose text it was found in (empty: in a message or a field).
    """

    entry: WorldInfoEntry
    pass_number: int
    reason: str
    key: str = ""
    woken_by: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rejected:
    """An entry that was set off and is not shown, or that could not be: `reason` is a code (`group`, `probability`, `budget`,
    `cooldown`, `delay`, `filter`, `trigger`), `detail` a sentence on it.
    """

    entry: WorldInfoEntry
    reason: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Activation:
    """The result of a scan: entries in the order of their activation, those that were rejected, the effects that last from here on,
    and the tokens of the texts.
    """

    active: tuple[Activated, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    effects: TimedEffects = TimedEffects()
    tokens: int = 0
    passes: int = 0


CountTokens = Callable[[str], int]
