"""Prompt blocks and the skein that holds them through the weaving stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum

from jacquard.core.block_kinds import KINDS
from jacquard.core.block_kinds import BlockKind as BlockKind
from mnemosyne.schema.evidence import BlockType, Priority
from mnemosyne.schema.memory import LoreCategory, Trust
from mnemosyne.schema.session import Ref, Role

FRAME = "frame"
"""The id under which tags and overhead between blocks are counted; no block has it."""
MESSAGE_OVERHEAD_TOKENS = 4
"""Tokens of a message beside its text."""


class Position(StrEnum):
    """Where a block stands in the prompt. APPENDED: before the user's message, and in later prompts before that message."""

    SYSTEM = "system"
    BEFORE_HISTORY = "before_history"
    IN_HISTORY = "in_history"
    APPENDED = "appended"
    AFTER_HISTORY = "after_history"
    USER_ANCHOR = "user_anchor"


class Stage(StrEnum):
    """The weaving stages, in order."""

    SKELETON = "skeleton"
    ANCHORED = "anchored"
    STITCHED = "stitched"
    DEDUPLICATED = "deduplicated"
    TRUNCATED = "truncated"


class Sensitivity(StrEnum):
    """How sensitive a text is, from the least to the most sensitive."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    SECRET = "secret"


_LEVELS: Mapping[str, int] = {level: rank for rank, level in enumerate(Sensitivity)}


def sensitivity_of(metadata: Mapping[str, object]) -> Sensitivity:
    """Return how sensitive a text is by its metadata (`sensitivity`); an unknown word counts as the most sensitive."""
    if "sensitivity" not in metadata:
        return Sensitivity.PUBLIC
    told = metadata["sensitivity"]
    return Sensitivity(told) if isinstance(told, str) and told in _LEVELS else Sensitivity.SECRET


def is_too_sensitive(metadata: Mapping[str, object], most: str) -> bool:
    """Return whether a text is, by its metadata, more sensitive than a level; KeyError for a word that is no level."""
    return _LEVELS[sensitivity_of(metadata)] > _LEVELS[most]


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """The place of a block in the prompt.

    In SYSTEM `order` is the slot (small first). Elsewhere blocks of higher `priority` stand nearer to the user input,
    and equal ones follow their ids. `depth` counts for IN_HISTORY only: exactly that many newer history messages
    follow.
    """

    position: Position
    priority: int = 0
    depth: int = 0
    order: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptBlock:
    """One piece of the prompt, rendered and escaped.

    `block_id` is unique in the prompt (`rename_duplicates`), `kind` says to what it refers, and `uri` is the address of
    what the block shows, if it has one: an entry of memory, a message, an evidence. Two blocks with the same `uri` hold
    the same text. `content` is filament text, final. `slot` is the name by which a layout places it (`instruction`,
    `state`, `flesh`…). `layer` groups neighbours under one `<context_layer>`: "deterministic", "probabilistic" or None;
    `section` names the element inside the layer that gathers neighbours (`knowledge_base`, `relevant_memories`), or
    None. `rank` orders blocks of one priority for pruning, small = keep first. `group`: blocks of one group live or die
    together. `tokens` counts `content` alone. `title` names the block for people. `at` is the time of the text,
    `expires_at` the time from which it is not used any more (None: never). `shortened` marks a text that replaces a
    longer one, or one that must not be shown. `attached_tokens` are those of what is sent beside the text: images, tool calls.
    `as_written`: the content is a message as it was written, no markup; it is never joined with markup in one message.
    `sequence` is the block's place among those that a layout puts into one place, small first, whatever their `rank`. `anchor` is
    the id of the message before which a block of an earlier prompt stands, if its place is APPENDED.
    """

    block_id: str
    block_type: BlockType
    slot: str
    source: str
    content: str
    role: Role = Role.SYSTEM
    priority: Priority = Priority.MEDIUM
    placement: Placement = Placement(position=Position.SYSTEM)
    layer: str | None = None
    section: str | None = None
    group: str | None = None
    rank: int = 0
    tokens: int = 0
    volatile: bool = False
    title: str = ""
    entities: tuple[str, ...] = ()
    category: LoreCategory | None = None
    refs: tuple[Ref, ...] = ()
    trust: Trust = Trust.AUTHORED
    at: datetime | None = None
    expires_at: datetime | None = None
    sensitivity: Sensitivity = Sensitivity.PUBLIC
    shortened: bool = False
    kind: BlockKind = BlockKind.UNKNOWN
    uri: str = ""
    attached_tokens: int = 0
    as_written: bool = False
    sequence: int = 0
    anchor: str = ""


_COPIED = tuple((slot.__get__, slot.__set__) for slot in (vars(PromptBlock)[each.name] for each in fields(PromptBlock)))
_SET_TOKENS = vars(PromptBlock)["tokens"].__set__


def with_tokens(block: PromptBlock, tokens: int) -> PromptBlock:
    """Return a block with other tokens: `dataclasses.replace` at a quarter of its cost, because every turn prices every block."""
    if block.tokens == tokens or type(block) is not PromptBlock:
        return block if block.tokens == tokens else replace(block, tokens=tokens)
    made = object.__new__(PromptBlock)
    for read, write in _COPIED:
        write(made, read(block))
    _SET_TOKENS(made, tokens)
    return made


def is_of_kind(block: PromptBlock, kind: BlockKind) -> bool:
    """Say whether a block is of a kind; one that was recorded without its kind is known by its slot."""
    return block.kind is kind or (block.kind is BlockKind.UNKNOWN and block.slot == KINDS[kind].slot)


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotRule:
    """Where a layout puts the blocks of one slot."""

    slot: str
    position: Position
    order: int = 0
    priority: int = 0
    depth: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SkeinTemplate:
    """A layout as data.

    Slots that it does not name go to SYSTEM, after all named ones; a rule for `slot.section` takes precedence over one
    for `slot`. With `separate` the blocks of each order have a system message of their own. `boundary` is set where
    messages are shown as written: they stand alone in their role messages, and in one text between lines that have it.
    `alternates`: neighbouring messages of one role are sent as one, because several providers refuse them otherwise, and what the
    user said last stands in the same element in every prompt (not in prompts that earlier releases recorded).
    """

    layout_id: str
    rules: tuple[SlotRule, ...]
    separate: bool = False
    boundary: str = ""
    alternates: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Skein:
    """The blocks of one prompt at one stage, each list in reading order.

    `system` is the system text; `history` the conversation with what stands inside, before and after it; `anchor` what
    stands right before the user input. Until the ANCHORED stage, blocks that have no place yet wait in `pending`.
    `layer_attributes` go onto the wrapper of a layer (the model that chose the flesh, say). `separate`, `boundary` and
    `alternates` are the layout's.
    """

    stage: Stage
    system: tuple[PromptBlock, ...] = ()
    history: tuple[PromptBlock, ...] = ()
    anchor: tuple[PromptBlock, ...] = ()
    user_input: PromptBlock | None = None
    pending: tuple[PromptBlock, ...] = ()
    layer_attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    separate: bool = False
    boundary: str = ""
    alternates: bool = False

    def blocks(self) -> tuple[PromptBlock, ...]:
        """Return every placed block in reading order, the user input last."""
        last = () if self.user_input is None else (self.user_input,)
        return (*self.system, *self.history, *self.anchor, *last)
