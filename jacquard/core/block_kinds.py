"""The one list of block kinds and of slots: whatever is decided by the kind or the slot of a block is a column here.

A kind says what the id of a block is an id of; a slot is the name by which a layout places it. Blocks of code have the slot of
their kind, blocks of templates the slot that their manifest gives them, be it one of `SLOTS` or a name of the author's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

INPUT_ID = "user_input"
"""The id of the block of the user's input; no other block has it."""

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
"""The wrappers `<context_layer>` that a template may ask for."""

KNOWLEDGE_SECTION = "knowledge_base"
MEMORIES_SECTION = "relevant_memories"
FORMER_SECTION = "former"
"""Where facts about the user stand that hold no more."""

SYSTEM_PROMPT = "system_prompt"
"""The place of the agent's own prompt in the seven layers (`docs/layers.md`), before all layers."""


class Layer(StrEnum):
    """The five shared layers, in their order; the agent's own prompt, the conversation and the query frame them."""

    FRAMEWORK = "framework__context"
    EXPERIENCE = "experience__context"
    KNOWLEDGE = "knowledge__context"
    TODO = "todo__context"
    COMPRESSION = "compression__context"


class PackagePart(StrEnum):
    """Where a context package has a text: among its blocks, or in a part of its own (messages, evidence, summary)."""

    SYSTEM_BLOCKS = "system_blocks"
    DEVELOPER_BLOCKS = "developer_blocks"
    OWN = "own"


class Subject(StrEnum):
    """What a block is about, by which the command line colours it."""

    NONE = ""
    WORLD = "world"
    DIRECTIVE = "directive"
    STATE = "state"
    GUIDANCE = "guidance"
    MEMORIES = "memories"
    TALK = "talk"
    INPUT = "input"


class Beside(StrEnum):
    """How a block joins a prompt that a chat client has written itself: it has such a text of its own (ABSENT), or the block is
    added where the prompt stays the same over many turns (LASTING) or where it changes (CHANGING, or DIRECTING for what is no
    material, but tells the model what to do).
    """

    ABSENT = "absent"
    LASTING = "lasting"
    DIRECTING = "directing"
    CHANGING = "changing"


class BlockKind(StrEnum):
    """What a block is, and so what its id is an id of. Ids of two kinds never mean the same thing, however they are spelled.

    UNKNOWN: recorded by a release that had no kinds, where all ids shared one namespace; and the frame between blocks, which
    is no block. The order is that in which kinds keep an id that two of them have (`rename_duplicates`).
    """

    UNKNOWN = ""
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
"""The kinds of what is said in the conversation."""

AUTHORED = frozenset({BlockKind.TEMPLATE, BlockKind.DIRECTIVE, BlockKind.INJECTION, BlockKind.WORLD_INFO})
"""The kinds of what the author of a world or of templates wrote: too long for a budget, it is cut and not dropped."""


AUTHORED_ENTRIES = frozenset({BlockKind.DIRECTIVE, BlockKind.INJECTION, BlockKind.WORLD_INFO})
"""The kinds of single texts of an author; a chat client that has the author's files may send them itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KindTraits:
    """What holds for all blocks of a kind.

    `slot` is theirs; None where the manifest of their template says it. `source` is what their source is, or begins with.
    `has_own_part`: a context package has them in a part of its own, whatever their slot. `layer` is the wrapper that they
    stand in. `subject` and `beside` are None where the slot says it.
    """

    source: str
    slot: str | None = None
    has_own_part: bool = False
    layer: str | None = None
    subject: Subject | None = None
    beside: Beside | None = None


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
"""Every kind but UNKNOWN."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotTraits:
    """What holds for the blocks of a slot.

    `shared_layer` is their layer (None: history and input, which have none). `part` and `package_type` say where a
    context package has them and as what. `remedy` is what a user can do when the block does not fit that must stay;
    `block_id` is its id in the shipped templates, where that is not the name of the slot. `needs_state`: without a state in the
    world it does not join a client's own prompt.
    """

    shared_layer: str | None = Layer.KNOWLEDGE.value
    part: PackagePart = PackagePart.SYSTEM_BLOCKS
    package_type: str = "other"
    subject: Subject = Subject.WORLD
    remedy: str = ""
    block_id: str = ""
    beside: Beside = Beside.CHANGING
    needs_state: bool = False


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
        "directive": SlotTraits(
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
"""The slots of the shipped templates and of blocks of code. `slot.section` goes before `slot`, as in layouts."""

_OTHER = SlotTraits()


def slot_traits(slot: str, section: str | None = None) -> SlotTraits:
    """Return what holds for a slot, in one of its sections; a slot of an author's own is knowledge of the world."""
    return SLOTS.get(f"{slot}.{section}") or SLOTS.get(slot) or _OTHER


def slot_of(kind: BlockKind) -> str:
    """Return the slot of the blocks of a kind that no template makes; KeyError for the other kinds."""
    if (slot := KINDS[kind].slot) is None:
        raise KeyError(kind)
    return slot


def _traits_of_template_block(block_id: str) -> SlotTraits:
    return next((traits for slot, traits in SLOTS.items() if (traits.block_id or slot) == block_id), _OTHER)


def remedy_of(block_id: str) -> str:
    """Return what a user can do when a block does not fit that must stay, as half a sentence; empty where nothing is known."""
    return _traits_of_template_block(block_id).remedy


def place_beside(kind: BlockKind, block_id: str, *, has_state: bool) -> Beside:
    """Return how a block joins a client's own prompt, in a world with a state or without one."""
    kind_traits = KINDS.get(kind)
    if kind_traits is None:
        return Beside.ABSENT
    slot = kind_traits.slot
    traits = _traits_of_template_block(block_id) if slot is None else slot_traits(slot)
    if traits.needs_state and not has_state:
        return Beside.ABSENT
    return kind_traits.beside or traits.beside


def subject_of(source: str) -> Subject:
    """Return what a block is about by its source (`automation:chat/status.j2`, `curation:lore`, `history`)."""
    for traits in KINDS.values():
        if traits.subject is not None and source.partition(":")[0] == traits.source.rstrip(":"):
            return traits.subject
    if not source.startswith(TEMPLATE_SOURCE):
        return Subject.NONE
    return slot_traits(source.rpartition("/")[2].removesuffix(".j2")).subject
