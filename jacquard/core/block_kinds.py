"""Defines the kinds and slots of prompt blocks, and every rule that depends on the kind or the slot of a block.

A block is one piece of a prompt. The kind of a block states what the id of the block refers to. The slot of a block is
the name by which a layout (the file that orders a prompt) places the block. A block made in code has the slot of its
kind. A block of a template has the slot that the template's manifest states: one of `SLOTS`, or a name that the author
chose.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from mnemosyne.values import dataclass

INPUT_ID = "user_input"
"""Id of the block of the user's input; no other block has it."""

HOST_SOURCE = "host"
TEMPLATE_SOURCE = "automation:"
CURATION_SOURCE = "curation"
EVIDENCE_SOURCE = "evidence:"
DOCUMENT_SOURCE = "document:"
REFUSALS_SOURCE = "refusals"
USER_SOURCE_OF_FACTS = "profile:"
HISTORY_SOURCE = "history"
WORLD_INFO_SOURCE = "world_info:"
USER_SOURCE = "user"

HISTORY_SLOT = "history"
INPUT_SLOT = "user_input"
FLESH_SLOT = "flesh"
INSTRUCTION_SLOT = "instruction"
DIRECTIVE_SLOT = "directive"
SUMMARY_SLOT = "summary"
DOCUMENT_SLOT = "document"
REFUSALS_SLOT = "refused_update"
WORLD_INFO_SLOT = "world_info"
FACTS_SLOT = "user_facts"

FLESH_LAYER = "probabilistic"
STATE_LAYER = "deterministic"
EVIDENCE_LAYER = "evidence"
USER_LAYER = "user"
WRAPPED_LAYERS = (STATE_LAYER, FLESH_LAYER)
"""Layers that a template may wrap in `<context_layer>`."""

KNOWLEDGE_SECTION = "knowledge_base"
MEMORIES_SECTION = "relevant_memories"
FORMER_SECTION = "former"
"""Section of facts about the user that are no longer true."""

SYSTEM_PROMPT = "system_prompt"
"""Name of the layer that contains the agent's own prompt. This layer is the first of the seven layers
(`docs/en/layers.md`).
"""


class Layer(StrEnum):
    """The five shared layers of a prompt, in order. The agent's own prompt precedes them; conversation and query follow them."""

    FRAMEWORK = "framework__context"
    EXPERIENCE = "experience__context"
    KNOWLEDGE = "knowledge__context"
    TODO = "todo__context"
    COMPRESSION = "compression__context"


class PackagePart(StrEnum):
    """Part of a context package (the exported material of one prompt) in which a text is placed."""

    SYSTEM_BLOCKS = "system_blocks"
    """Context for the model."""
    DEVELOPER_BLOCKS = "developer_blocks"
    """Instructions and rules."""
    OWN = "own"
    """A field of its own, for messages, evidence or the summary."""


class Subject(StrEnum):
    """Topic of a block; the command line colours blocks by it."""

    NONE = ""
    WORLD = "world"
    DIRECTIVE = "directive"
    STATE = "state"
    GUIDANCE = "guidance"
    MEMORIES = "memories"
    TALK = "talk"
    INPUT = "input"


class Beside(StrEnum):
    """Rule for adding a block to the prompt of a chat client. The prompt was written by the client and passes through
    the proxy.
    """

    ABSENT = "absent"
    """Not added, because the client sends a text of this sort itself."""
    LASTING = "lasting"
    """Added in the part of the prompt that stays the same over many turns."""
    DIRECTING = "directing"
    """Added in the part of the prompt that changes in every turn. The block instructs the model instead of informing
    it.
    """
    CHANGING = "changing"
    """Added in the part of the prompt that changes in every turn."""


class BlockKind(StrEnum):
    """Kind of a block. The kind also states what the id of the block refers to, such as a memory or a message.

    Blocks of different kinds with equal ids are not related. If two blocks of a prompt have the same id, `rename_duplicates`
    renames the block whose kind is listed later here.
    """

    NONE = ""
    """Text that is not a block: tags around and between blocks, and the messages of a chat client."""
    INPUT = "input"
    TEMPLATE = "template"
    DIRECTIVE = "directive"
    INJECTION = "injection"
    WORLD_INFO = "world_info"
    INSTRUCTION = "instruction"
    CONTEXT = "context_block"
    REFUSAL = "refusal"
    FACT = "fact"
    RATIONALE = "rationale"
    MEMORY = "memory"
    EVIDENCE = "evidence"
    MESSAGE = "message"


SAID = frozenset({BlockKind.MESSAGE, BlockKind.INPUT})
"""Kinds of blocks that are messages of the conversation."""

AUTHORED = frozenset({BlockKind.TEMPLATE, BlockKind.DIRECTIVE, BlockKind.INJECTION, BlockKind.WORLD_INFO})
"""Kinds of blocks whose text the author of a world or of templates wrote. A block that is too long for the budget is cut.

Blocks of other kinds are dropped in this case.
"""


AUTHORED_ENTRIES = frozenset({BlockKind.DIRECTIVE, BlockKind.INJECTION, BlockKind.WORLD_INFO})
"""Kinds of blocks that are single texts of an author. A chat client that has the author's files may send these texts itself.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class KindTraits:
    """Properties shared by all blocks of a kind."""

    source: str
    """`source` of the blocks, or the beginning of their `source`."""
    slot: str | None = None
    """Slot of the blocks (None: the manifest of the template states the slot)."""
    has_own_part: bool = False
    """True if a context package has a field only for these blocks, whatever their slot."""
    layer: str | None = None
    """Name of the wrapper around the blocks in the prompt (None: the blocks of this kind have no common wrapper)."""
    subject: Subject | None = None
    """Topic of the blocks (None: the traits of the slot state it)."""
    beside: Beside | None = None
    """Rule for a chat client's prompt (None: the traits of the slot state it)."""


KINDS: Mapping[BlockKind, KindTraits] = MappingProxyType(
    {
        BlockKind.INPUT: KindTraits(slot=INPUT_SLOT, source=USER_SOURCE, has_own_part=True, subject=Subject.INPUT),
        BlockKind.TEMPLATE: KindTraits(source=TEMPLATE_SOURCE),
        BlockKind.DIRECTIVE: KindTraits(source=TEMPLATE_SOURCE, beside=Beside.DIRECTING),
        BlockKind.INJECTION: KindTraits(source=TEMPLATE_SOURCE, beside=Beside.DIRECTING),
        BlockKind.WORLD_INFO: KindTraits(slot=WORLD_INFO_SLOT, source=WORLD_INFO_SOURCE, subject=Subject.WORLD),
        BlockKind.INSTRUCTION: KindTraits(slot=INSTRUCTION_SLOT, source=HOST_SOURCE, subject=Subject.NONE),
        BlockKind.CONTEXT: KindTraits(slot=DOCUMENT_SLOT, source=DOCUMENT_SOURCE, subject=Subject.NONE),
        BlockKind.REFUSAL: KindTraits(
            slot=REFUSALS_SLOT, source=REFUSALS_SOURCE, layer=STATE_LAYER, subject=Subject.STATE
        ),
        BlockKind.FACT: KindTraits(
            slot=FACTS_SLOT, source=USER_SOURCE_OF_FACTS, layer=USER_LAYER, subject=Subject.NONE
        ),
        BlockKind.RATIONALE: KindTraits(
            slot=FLESH_SLOT, source=CURATION_SOURCE, has_own_part=True, layer=FLESH_LAYER, subject=Subject.MEMORIES
        ),
        BlockKind.MEMORY: KindTraits(
            slot=FLESH_SLOT, source=CURATION_SOURCE, has_own_part=True, layer=FLESH_LAYER, subject=Subject.MEMORIES
        ),
        BlockKind.EVIDENCE: KindTraits(
            slot=FLESH_SLOT, source=EVIDENCE_SOURCE, has_own_part=True, layer=EVIDENCE_LAYER, subject=Subject.NONE
        ),
        BlockKind.MESSAGE: KindTraits(
            slot=HISTORY_SLOT, source=HISTORY_SOURCE, has_own_part=True, subject=Subject.TALK
        ),
    }
)
"""Traits of every kind of block."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotTraits:
    """Properties shared by the blocks of a slot."""

    shared_layer: str | None = Layer.KNOWLEDGE.value
    """Shared layer of the blocks (None: history or input, which do not belong to a shared layer)."""
    part: PackagePart = PackagePart.SYSTEM_BLOCKS
    """Part of a context package that contains the blocks."""
    package_type: str = "other"
    """Type of the blocks in a context package."""
    subject: Subject = Subject.WORLD
    remedy: str = ""
    """Advice to the user if a block must be kept but does not fit."""
    block_id: str = ""
    """Id of the slot's block in the shipped templates ('': the id is the name of the slot)."""
    beside: Beside = Beside.CHANGING
    needs_state: bool = False
    """If true, the block is added to a client's own prompt only in a world with a state."""


_FACTS_REMEDY = "it is a fact about the user: end it with valid_to, or say it shorter"

SLOTS: Mapping[str, SlotTraits] = MappingProxyType(
    {
        INSTRUCTION_SLOT: SlotTraits(
            shared_layer=SYSTEM_PROMPT,
            part=PackagePart.DEVELOPER_BLOCKS,
            package_type="format_rules",
            remedy="it is the pack's `instruction` in world.yaml with the format of replies: shorten it",
            beside=Beside.LASTING,
            needs_state=True,
        ),
        "persona": SlotTraits(
            shared_layer=SYSTEM_PROMPT,
            package_type="core_profile",
            remedy="it is `persona` in world.yaml: shorten it",
            beside=Beside.ABSENT,
        ),
        "axiom": SlotTraits(
            shared_layer=Layer.FRAMEWORK.value,
            block_id="axioms",
            remedy="they are the pack's lore of the category axiom: say them shorter, or make some of them encyclopedia",
            beside=Beside.LASTING,
        ),
        DIRECTIVE_SLOT: SlotTraits(
            shared_layer=Layer.FRAMEWORK.value, part=PackagePart.DEVELOPER_BLOCKS, subject=Subject.DIRECTIVE
        ),
        WORLD_INFO_SLOT: SlotTraits(),
        f"{FLESH_SLOT}.{KNOWLEDGE_SECTION}": SlotTraits(part=PackagePart.OWN, subject=Subject.MEMORIES),
        FLESH_SLOT: SlotTraits(shared_layer=Layer.EXPERIENCE.value, part=PackagePart.OWN, subject=Subject.MEMORIES),
        "status": SlotTraits(shared_layer=Layer.TODO.value, subject=Subject.STATE, needs_state=True),
        "limits": SlotTraits(shared_layer=Layer.TODO.value, subject=Subject.STATE, needs_state=True),
        "active_quests": SlotTraits(
            shared_layer=Layer.TODO.value, package_type="goals", subject=Subject.STATE, needs_state=True
        ),
        "todo": SlotTraits(shared_layer=Layer.TODO.value, remedy="it is the session's to-do list: close tasks"),
        "guidance": SlotTraits(
            shared_layer=Layer.TODO.value,
            package_type="goals",
            subject=Subject.GUIDANCE,
            needs_state=True,
            remedy="it holds the goal: shorten the step of the quest that it comes from",
        ),
        DOCUMENT_SLOT: SlotTraits(
            remedy="it is a context block of the session: shorten it, or give it a lower priority", subject=Subject.NONE
        ),
        REFUSALS_SLOT: SlotTraits(shared_layer=Layer.TODO.value, subject=Subject.STATE, needs_state=True),
        **{
            f"{FACTS_SLOT}.{kind}": SlotTraits(
                shared_layer=layer.value,
                part=part,
                package_type=kind,
                remedy=_FACTS_REMEDY,
                subject=Subject.NONE,
            )
            for kind, layer, part in (
                ("core_profile", Layer.EXPERIENCE, PackagePart.SYSTEM_BLOCKS),
                ("preferences", Layer.EXPERIENCE, PackagePart.SYSTEM_BLOCKS),
                ("goals", Layer.EXPERIENCE, PackagePart.SYSTEM_BLOCKS),
                ("policies", Layer.FRAMEWORK, PackagePart.SYSTEM_BLOCKS),
                ("tooling_rules", Layer.FRAMEWORK, PackagePart.DEVELOPER_BLOCKS),
                ("format_rules", Layer.FRAMEWORK, PackagePart.DEVELOPER_BLOCKS),
                ("safety_rules", Layer.FRAMEWORK, PackagePart.DEVELOPER_BLOCKS),
            )
        },
        FACTS_SLOT: SlotTraits(
            shared_layer=Layer.EXPERIENCE.value, remedy=_FACTS_REMEDY, subject=Subject.NONE, beside=Beside.LASTING
        ),
        SUMMARY_SLOT: SlotTraits(
            shared_layer=Layer.COMPRESSION.value, part=PackagePart.OWN, subject=Subject.TALK, beside=Beside.LASTING
        ),
        HISTORY_SLOT: SlotTraits(shared_layer=None, part=PackagePart.OWN, subject=Subject.TALK, beside=Beside.ABSENT),
        INPUT_SLOT: SlotTraits(
            shared_layer=None,
            part=PackagePart.OWN,
            subject=Subject.INPUT,
            remedy="it is the user's message: shorten it",
            beside=Beside.ABSENT,
        ),
    }
)
"""Traits of the slots of the shipped templates and of blocks made in code. A key is `slot` or `slot.section`; the traits of
`slot.section` take precedence, as in layouts.
"""

_OTHER = SlotTraits()


def slot_traits(slot: str, section: str | None = None) -> SlotTraits:
    """Return the traits of the slot `slot`, or of its section `section` if there are traits for this section. An
    unknown slot has the default traits.
    """
    return SLOTS.get(f"{slot}.{section}") or SLOTS.get(slot) or _OTHER


def slot_of(kind: BlockKind) -> str:
    """Return the slot of a kind whose blocks are made in code.

    Raises KeyError if the slot of blocks of this kind is stated by templates.
    """
    if (slot := KINDS[kind].slot) is None:
        raise KeyError(kind)
    return slot


def _traits_of_template_block(block_id: str) -> SlotTraits:
    return next((traits for slot, traits in SLOTS.items() if (traits.block_id or slot) == block_id), _OTHER)


def remedy_of(block_id: str) -> str:
    """Return advice, as half a sentence, for the case that the block `block_id` must be kept but does not fit. Return
    '' if there is no advice.
    """
    return _traits_of_template_block(block_id).remedy


def place_beside(kind: BlockKind, block_id: str, *, has_state: bool) -> Beside:
    """Return the rule by which the proxy adds a block to a prompt that a chat client wrote.

    The block has the kind `kind` and the id `block_id`. `has_state` is true if the world has a state; without a state,
    some blocks are not added.
    """
    kind_traits = KINDS.get(kind)
    if kind_traits is None:
        return Beside.ABSENT
    slot = kind_traits.slot
    traits = _traits_of_template_block(block_id) if slot is None else slot_traits(slot)
    if traits.needs_state and not has_state:
        return Beside.ABSENT
    return kind_traits.beside or traits.beside


def subject_of(source: str) -> Subject:
    """Return the topic of a block whose source is `source` (`automation:chat/status.j2`, `curation:lore`, `history`).
    Return NONE if the source is unknown.
    """
    for traits in KINDS.values():
        if traits.subject is not None and source.partition(":")[0] == traits.source.rstrip(":"):
            return traits.subject
    if not source.startswith(TEMPLATE_SOURCE):
        return Subject.NONE
    return slot_traits(source.rpartition("/")[2].removesuffix(".j2")).subject
