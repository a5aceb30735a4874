"""Prompt blocks, and the skein that contains them during weaving."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from jacquard.core.block_kinds import BlockKind as BlockKind
from mnemosyne.core.codec import Struct, replace_struct
from mnemosyne.schema.evidence import BlockType, Priority
from mnemosyne.schema.memory import LoreCategory, Trust
from mnemosyne.schema.session import Ref, Role

FRAME = "frame"
"""Id under which the tokens of tags and of message overhead are counted; no block has it."""
MESSAGE_OVERHEAD_TOKENS = 4
"""Tokens of a message besides its text."""


class Position(StrEnum):
    """Position of a block in the prompt."""

    SYSTEM = "system"
    BEFORE_HISTORY = "before_history"
    IN_HISTORY = "in_history"
    APPENDED = "appended"
    """Before the user's message; later prompts keep the block before that message."""
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
    """Sensitivity of a text, from least to most sensitive."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    SECRET = "secret"


_LEVELS: Mapping[str, int] = {level: rank for rank, level in enumerate(Sensitivity)}


def sensitivity_of(metadata: Mapping[str, object]) -> Sensitivity:
    """Return the sensitivity in a text's metadata (`sensitivity`); an unknown value counts as the most sensitive."""
    if "sensitivity" not in metadata:
        return Sensitivity.PUBLIC
    told = metadata["sensitivity"]
    return Sensitivity(told) if isinstance(told, str) and told in _LEVELS else Sensitivity.SECRET


def is_too_sensitive(metadata: Mapping[str, object], most: str) -> bool:
    """Return whether a text's metadata declare it more sensitive than `most`; raises KeyError if `most` is not a level."""
    return _LEVELS[sensitivity_of(metadata)] > _LEVELS[most]


class Placement(Struct, frozen=True, kw_only=True):
    """Position of a block in the prompt, and its order there."""

    position: Position
    priority: int = 0
    """Outside SYSTEM: blocks of higher priority are nearer to the user input; equal priorities are ordered by id."""
    depth: int = 0
    """IN_HISTORY only: the number of history messages after the block."""
    order: int = 0
    """SYSTEM only: the slot's place, smallest first."""


class BlockPlace(Struct, frozen=True, kw_only=True):
    """Place and form of a block in every prompt; blocks of one sort share it."""

    slot: str
    """Name by which a layout places the block (`instruction`, `state`, `flesh`…)."""
    role: Role = Role.SYSTEM
    placement: Placement = Placement(position=Position.SYSTEM)
    """Placement by layouts without a rule for the slot."""
    layer: str | None = None
    """Wrapper `<context_layer>` shared with neighbours ("deterministic", "probabilistic"), or None."""
    section: str | None = None
    """Element inside the layer shared with neighbours (`knowledge_base`, `relevant_memories`), or None."""
    volatile: bool = False
    as_written: bool = False
    """True if the content is a message exactly as written, without markup; it never shares a message with markup."""
    sequence: int = 0
    """Order among blocks that a layout puts in one place, smallest first, whatever their rank."""
    anchor: str = ""
    """Only for APPENDED blocks of an earlier prompt: id of the message that follows the block."""


class BlockOrigin(Struct, frozen=True, kw_only=True):
    """Origin of a block's text."""

    source: str
    title: str = ""
    """Name of the block for people."""
    entities: tuple[str, ...] = ()
    category: LoreCategory | None = None
    refs: tuple[Ref, ...] = ()
    trust: Trust = Trust.AUTHORED
    at: datetime | None = None
    """Time of the text."""
    expires_at: datetime | None = None
    """Time from which the text is not used any more (None: never)."""
    sensitivity: Sensitivity = Sensitivity.PUBLIC
    uri: str = ""
    """Address of the memory entry, message or evidence in the block; blocks with the same address have the same text."""


class Block(Struct, frozen=True, kw_only=True):
    """One piece of the prompt, rendered and escaped."""

    block_id: str
    """Unique in the prompt (`rename_duplicates`)."""
    kind: BlockKind
    """States what the block's id refers to."""
    block_type: BlockType
    content: str
    """Final text, in filament markup."""
    place: BlockPlace
    origin: BlockOrigin
    priority: Priority = Priority.MEDIUM
    rank: int = 0
    """Order among blocks of one priority for pruning; the smallest is kept first."""
    group: str | None = None
    """Blocks of one group are kept or dropped together."""
    tokens: int = 0
    """Tokens of the text and of what is sent with it; if it is shortened, those of its own message too."""
    attached_tokens: int = 0
    """Tokens sent with the text: images, tool calls."""
    shortened: bool = False
    """True if the content replaces a longer text or one that must not be shown."""


class PlacedBlock(Struct, frozen=True, kw_only=True):
    """Block in its place in one prompt."""

    block: Block
    placement: Placement
    """Placement by the layout of the prompt."""
    tokens: int
    """Tokens of the block in the prompt, with those of a message of its own."""

    @property
    def is_volatile(self) -> bool:
        """True if the block may change each turn; an appended one stays in the prompts that follow."""
        return self.block.place.volatile and self.placement.position is not Position.APPENDED


def place_block(block: Block, placement: Placement | None = None) -> PlacedBlock:
    """Return a block with its tokens in the prompt; `placement` defaults to the block's own."""
    overhead = MESSAGE_OVERHEAD_TOKENS if block.kind is BlockKind.MESSAGE else 0
    return PlacedBlock(block=block, placement=placement or block.place.placement, tokens=block.tokens + overhead)


def shorten_block(block: Block, content: str, tokens: int, title: str | None = None) -> Block:
    """Return a block with other content, whose tokens are all those in the prompt; `title` defaults to its own."""
    origin = block.origin if title is None else replace_struct(block.origin, title=title)
    return replace_struct(block, content=content, tokens=tokens, origin=origin, shortened=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotRule:
    """Place that a layout gives to the blocks of one slot."""

    slot: str
    position: Position
    order: int = 0
    priority: int = 0
    depth: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SkeinTemplate:
    """Layout as data."""

    layout_id: str
    """Id of the layout."""
    rules: tuple[SlotRule, ...]
    """A rule for `slot.section` takes precedence over one for `slot`; slots without a rule come last in SYSTEM."""
    separate: bool = False
    """True if the blocks of each order have a system message of their own."""
    boundary: str = ""
    """Line around each message in one text, if messages are shown as written; in role messages such a message is not joined."""
    alternates: bool = False
    """True if neighbouring messages of one role are sent as one, because several providers refuse them otherwise.

    The newest user message is then in the same element in every prompt.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Skein:
    """Blocks of one prompt at one stage, each list in reading order."""

    stage: Stage
    system: tuple[PlacedBlock, ...] = ()
    """Blocks of the system text."""
    history: tuple[PlacedBlock, ...] = ()
    """Conversation, with the blocks before, inside and after it."""
    anchor: tuple[PlacedBlock, ...] = ()
    """Blocks directly before the user input."""
    user_input: PlacedBlock | None = None
    pending: tuple[PlacedBlock, ...] = ()
    """Blocks without a place; empty from the ANCHORED stage on."""
    layer_attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Attributes of the wrapper of each layer (for example the model that chose the memories)."""
    separate: bool = False
    boundary: str = ""
    alternates: bool = False

    def blocks(self) -> tuple[PlacedBlock, ...]:
        """Return every placed block in reading order, the user input last."""
        last = () if self.user_input is None else (self.user_input,)
        return (*self.system, *self.history, *self.anchor, *last)
