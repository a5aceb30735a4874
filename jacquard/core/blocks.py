"""Defines prompt blocks (the pieces of a prompt), their places, and the skein (the ordered blocks before they become messages)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from jacquard.core.block_kinds import BlockKind as BlockKind
from mnemosyne.core.codec import Struct, replace_struct
from mnemosyne.schema.evidence import BlockType, Priority
from mnemosyne.schema.memory import LoreCategory, Trust
from mnemosyne.schema.session import Ref, Role
from mnemosyne.values import dataclass

FRAME = "frame"
"""Id under which the tokens of tags and message overhead are counted; no block has this id."""
MESSAGE_OVERHEAD_TOKENS = 4
"""Tokens that a message takes in addition to its text."""


class Position(StrEnum):
    """Position of a block in the prompt."""

    SYSTEM = "system"
    BEFORE_HISTORY = "before_history"
    IN_HISTORY = "in_history"
    APPENDED = "appended"
    """Directly before the user's message; later prompts show the block before the same message."""
    AFTER_HISTORY = "after_history"
    USER_ANCHOR = "user_anchor"


class Stage(StrEnum):
    """Stages of weaving (merging blocks into one prompt), in order."""

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
    """Return the value of `sensitivity` in the metadata of a text. Return PUBLIC if there is none, and SECRET if the
    value is unknown.
    """
    if "sensitivity" not in metadata:
        return Sensitivity.PUBLIC
    told = metadata["sensitivity"]
    return Sensitivity(told) if isinstance(told, str) and told in _LEVELS else Sensitivity.SECRET


def is_too_sensitive(metadata: Mapping[str, object], most: str) -> bool:
    """Return whether a text's metadata declare the text more sensitive than `most`.

    Raises KeyError if `most` is not a level of `Sensitivity`.
    """
    return _LEVELS[sensitivity_of(metadata)] > _LEVELS[most]


class Placement(Struct, frozen=True, kw_only=True):
    """Position of a block in the prompt, and its order there."""

    position: Position
    priority: int = 0
    """Order in all positions except SYSTEM. A block of higher priority is nearer to the user input. Blocks of equal
    priority are ordered by id.
    """
    depth: int = 0
    """Number of history messages after the block. Used only in the position IN_HISTORY."""
    order: int = 0
    """Place of the block's slot, smallest first. Used only in the position SYSTEM."""


class BlockPlace(Struct, frozen=True, kw_only=True):
    """Place and form of a block, independent of the layout. Blocks of one sort share one value."""

    slot: str
    """Name by which a layout places the block (`instruction`, `state`, `flesh`…)."""
    role: Role = Role.SYSTEM
    placement: Placement = Placement(position=Position.SYSTEM)
    """Placement if the layout has no rule for the slot."""
    layer: str | None = None
    """Name of the wrapper `<context_layer>` that the block shares with its neighbours, for example `deterministic`
    (None: no wrapper).
    """
    section: str | None = None
    """Name of the element inside the layer that the block shares with its neighbours, for example `knowledge_base`
    (None: no element).
    """
    volatile: bool = False
    """True if the block may change in each turn."""
    as_written: bool = False
    """True if the content is a message exactly as written, without markup. It is never joined with markup in one message."""
    sequence: int = 0
    """Order among blocks that a layout puts in one place, smallest first. This order takes precedence over
    `Block.rank`.
    """
    anchor: str = ""
    """Id of the message that follows the block; used only for APPENDED blocks of an earlier prompt."""


class BlockOrigin(Struct, frozen=True, kw_only=True):
    """Origin of a block's text."""

    source: str
    title: str = ""
    """Name of the block for people."""
    entities: tuple[str, ...] = ()
    """Entities of a memory, its subject first. An entry of the encyclopedia is left out if the block of an agent has the same
    subject; if this is empty, it stays.
    """
    category: LoreCategory | None = None
    refs: tuple[Ref, ...] = ()
    trust: Trust = Trust.AUTHORED
    at: datetime | None = None
    """Time at which the text was written."""
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
    """Order in which blocks of one priority are kept when the prompt is pruned, smallest first."""
    group: str | None = None
    """Blocks of one group are kept or dropped together (None: the block is in no group)."""
    tokens: int = 0
    """Tokens of the text and of its attachments. For a shortened block, all tokens that it takes in the prompt."""
    attached_tokens: int = 0
    """Tokens of the attachments only: images, tool calls."""
    shortened: bool = False
    """True if the content replaces a longer text or a text that must not be shown."""


class PlacedBlock(Struct, frozen=True, kw_only=True):
    """Block in its place in one prompt."""

    block: Block
    placement: Placement
    """Placement by the layout of the prompt."""
    tokens: int
    """Tokens of the block in the prompt; a block that is a message includes the overhead of the message."""

    @property
    def is_volatile(self) -> bool:
        """True if the block may change in each turn. False for an APPENDED block, because later prompts repeat it unchanged."""
        return self.block.place.volatile and self.placement.position is not Position.APPENDED

    # The fields of a `ContextBlock`, for pruners that know no more of a block.

    @property
    def block_id(self) -> str:
        """Id of the block."""
        return self.block.block_id

    @property
    def block_type(self) -> BlockType:
        """Kind of the block in a session document."""
        return self.block.block_type

    @property
    def priority(self) -> Priority:
        """Priority of the block."""
        return self.block.priority

    @property
    def token_estimate(self) -> int:
        """Tokens of the block in the prompt: `tokens`."""
        return self.tokens

    @property
    def content(self) -> str:
        """Final text of the block."""
        return self.block.content

    @property
    def refs(self) -> tuple[Ref, ...]:
        """Refs to the evidence that the block is made of."""
        return self.block.origin.refs


def place_block(block: Block, placement: Placement | None = None) -> PlacedBlock:
    """Return `block` in its place, with its tokens in the prompt. `placement` is the place by the layout (None: the
    block's own placement).
    """
    overhead = MESSAGE_OVERHEAD_TOKENS if block.kind is BlockKind.MESSAGE else 0
    return PlacedBlock(block=block, placement=placement or block.place.placement, tokens=block.tokens + overhead)


def shorten_block(block: Block, content: str, tokens: int, title: str | None = None) -> Block:
    """Return `block` with the shorter text `content`. `tokens` is the number of all tokens that the new block takes in
    the prompt.

    `title` is the new title (None: the title stays).
    """
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
    """Layout as data: it states the place of each slot in a prompt."""

    layout_id: str
    rules: tuple[SlotRule, ...]
    """Rules by slot. A rule for `slot.section` takes precedence over a rule for `slot`. Slots without a rule come last in
    SYSTEM.
    """
    separate: bool = False
    """True if the system blocks of each `order` become a system message of their own."""
    boundary: str = ""
    """Mark around each message that is shown exactly as written, used if the prompt is one text ('': messages are
    escaped instead). In a prompt of role messages, a message that is shown as written is not joined with markup.
    """
    alternates: bool = False
    """True if neighbouring messages of one role are joined into one message, because several providers refuse them otherwise.

    If true, the newest user message is in the same element in every prompt.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Skein:
    """Blocks of one prompt at one stage of weaving. Each list is in reading order."""

    stage: Stage
    system: tuple[PlacedBlock, ...] = ()
    """Blocks of the system text."""
    history: tuple[PlacedBlock, ...] = ()
    """Conversation, with the blocks before, inside and after it."""
    anchor: tuple[PlacedBlock, ...] = ()
    """Blocks directly before the user input."""
    user_input: PlacedBlock | None = None
    pending: tuple[PlacedBlock, ...] = ()
    """Blocks that have no place yet; empty from the stage ANCHORED on."""
    layer_attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Layer -> attributes of its wrapper (for example the model that chose the memories)."""
    separate: bool = False
    boundary: str = ""
    alternates: bool = False

    def blocks(self) -> tuple[PlacedBlock, ...]:
        """Return every placed block in reading order, the user input last."""
        last = () if self.user_input is None else (self.user_input,)
        return (*self.system, *self.history, *self.anchor, *last)
