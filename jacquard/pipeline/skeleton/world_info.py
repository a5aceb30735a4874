"""Turns activated world info into prompt blocks, and explains each activation in the receipt. Pure.

World info is lore from a book of another program (SillyTavern); keywords in the conversation activate its entries.
SillyTavern's places are mapped to the closest places of our prompt. The depth of an entry is the number of messages
after the entry, including the input. Depth 1 is directly before the input. An entry of depth 0, which SillyTavern shows
after the input, is shown directly before the input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from filament.boundaries import show_text
from filament.markup import open_tag
from jacquard.core.block_kinds import WORLD_INFO_SOURCE, slot_of
from jacquard.core.blocks import (
    Block,
    BlockKind,
    BlockOrigin,
    BlockPlace,
    Placement,
    Position,
    is_too_sensitive,
    sensitivity_of,
)
from jacquard.core.receipt import ActivationDecision
from jacquard.pipeline.turn import Turn
from mnemosyne.chains.uris import entry_uri
from mnemosyne.schema.evidence import BlockType, Priority
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.session import Role
from mnemosyne.world.activation.values import ActivatedEntry, RejectedEntry, WorldInfoEntry, WorldInfoPosition

_SECTIONS: Mapping[WorldInfoPosition, str] = MappingProxyType(
    {
        WorldInfoPosition.BEFORE_CHAR: "before",
        WorldInfoPosition.AFTER_CHAR: "after",
        WorldInfoPosition.AN_TOP: "note_top",
        WorldInfoPosition.AN_BOTTOM: "note_bottom",
        WorldInfoPosition.AT_DEPTH: "depth",
        WorldInfoPosition.EXAMPLES_TOP: "examples_top",
        WorldInfoPosition.EXAMPLES_BOTTOM: "examples_bottom",
        WorldInfoPosition.OUTLET: "outlet",
    }
)
"""Names of the places, which are sections of the slot in layouts."""
CONSTANT = "_constant"
"""Suffix of the section's name for constant entries, which every turn shows."""
_BESIDE_CHAR = frozenset({WorldInfoPosition.BEFORE_CHAR, WorldInfoPosition.AFTER_CHAR})
_PLACES: Mapping[WorldInfoPosition, Placement] = MappingProxyType(
    {
        # The persona has order 20 in the shipped layouts, the axioms 30, context blocks 35; directives have priority 10.
        WorldInfoPosition.BEFORE_CHAR: Placement(position=Position.SYSTEM, order=18),
        WorldInfoPosition.AFTER_CHAR: Placement(position=Position.SYSTEM, order=32),
        WorldInfoPosition.EXAMPLES_TOP: Placement(position=Position.BEFORE_HISTORY, priority=12),
        WorldInfoPosition.EXAMPLES_BOTTOM: Placement(position=Position.BEFORE_HISTORY, priority=13),
        WorldInfoPosition.AN_TOP: Placement(position=Position.USER_ANCHOR, priority=5),
        WorldInfoPosition.AN_BOTTOM: Placement(position=Position.USER_ANCHOR, priority=15),
    }
)
_AT_INPUT = Placement(position=Position.USER_ANCHOR, priority=30)
_ROLES = (Role.SYSTEM, Role.USER, Role.ASSISTANT)
_ROLE_ORDER = {Role.ASSISTANT: 0, Role.USER: 1, Role.SYSTEM: 2}
"""Order of the roles in one place. SillyTavern puts the most important entries nearest to the input."""
_REJECTED: Mapping[str, str] = MappingProxyType(
    {
        "group": "Another entry of its group was taken.",
        "probability": "Its probability decided against it.",
        "budget": "The tokens for world info were used up.",
        "cooldown": "It was shown, and its cooldown is not over.",
        "delay": "The chat has not as many messages yet as its delay says.",
        "filter": "Its filter leaves out this character.",
        "trigger": "It is not for this kind of reply.",
    }
)


def world_info_blocks(turn: Turn, count: Callable[[str], int]) -> tuple[Block, ...]:
    """Return a block for each activated entry that has a text and a place. `count` returns the tokens of a text.

    Constant entries have the priority HIGH, and other entries have the priority MEDIUM. When blocks must be dropped,
    entries with a high `order` are kept first. In one place of the prompt, entries are sorted by `order`, lowest first.
    If entries have the same `order`, the entry that was activated last comes first, as in SillyTavern.
    """
    ranked = sorted(filter(_is_shown, turn.lore.activation.active), key=lambda each: -each.entry.order)
    ranks = {id(each): rank for rank, each in enumerate(ranked)}
    lines = sorted(ranked, key=lambda each: (_ROLE_ORDER[_role_of(each.entry)], -ranks[id(each)]))
    return tuple(_block(turn, each, ranks[id(each)], sequence, count) for sequence, each in enumerate(lines, start=1))


def activation_decisions(turn: Turn) -> tuple[ActivationDecision, ...]:
    """Return the decision about each activated or unreadable entry.

    Shown entries come first, in the order of activation. Then come entries that are not shown, and unreadable entries.
    """
    lore = turn.lore
    names = {f"{world}.{uid}": entry.entry_id for (world, uid), entry in lore.entries.items()}
    active = [_decide_active(lore.entry_of(each.entry), each, names) for each in lore.activation.active]
    most = turn.config.prune.max_sensitivity
    guarded = {entry_uri(each) for each in lore.entries.values() if is_too_sensitive(each.metadata, most)}
    decisions = (
        *(each for each in active if each.chosen),
        *(each for each in active if not each.chosen),
        *(_decide_rejected(lore.entry_of(each.entry), each) for each in lore.activation.rejected),
        *(
            _decision(entry, None, code="unreadable", reason=f"It is recalled as other lore is, because {fault}.")
            for entry, fault in lore.unreadable
        ),
    )
    return tuple(replace(each, title="") if each.uri in guarded else each for each in decisions)


def _is_shown(each: ActivatedEntry) -> bool:
    return each.entry.position is not WorldInfoPosition.OUTLET and bool(each.entry.content.strip())


def _role_of(entry: WorldInfoEntry) -> Role:
    is_at_depth = entry.position is WorldInfoPosition.AT_DEPTH
    return _ROLES[entry.role] if is_at_depth and 0 <= entry.role < len(_ROLES) else Role.SYSTEM


def _placement_of(entry: WorldInfoEntry) -> Placement:
    if entry.position is not WorldInfoPosition.AT_DEPTH:
        return _PLACES[entry.position]
    return _AT_INPUT if entry.depth < 1 else Placement(position=Position.IN_HISTORY, depth=entry.depth - 1)


def _block(turn: Turn, each: ActivatedEntry, rank: int, sequence: int, count: Callable[[str], int]) -> Block:
    entry, lore = each.entry, turn.lore.entry_of(each.entry)
    content = f"{open_tag('lore', (('id', lore.entry_id),))}{show_text(entry.content.strip(), turn.boundary)}</lore>"
    is_constant = entry.constant and entry.position in _BESIDE_CHAR
    return Block(
        block_id=lore.entry_id,
        kind=BlockKind.WORLD_INFO,
        block_type=BlockType.MEMORY,
        content=content,
        place=BlockPlace(
            slot=slot_of(BlockKind.WORLD_INFO),
            role=_role_of(entry),
            placement=_placement_of(entry),
            section=f"{_SECTIONS[entry.position]}{CONSTANT if is_constant else ''}",
            volatile=not entry.constant,
            sequence=sequence,
        ),
        origin=BlockOrigin(
            source=f"{WORLD_INFO_SOURCE}{entry.world}",
            title=_title_of(lore, entry),
            entities=lore.entities,
            trust=lore.trust,
            sensitivity=sensitivity_of(lore.metadata),
            uri=entry_uri(lore),
        ),
        priority=Priority.HIGH if entry.constant else Priority.MEDIUM,
        rank=rank,
        tokens=count(content),
    )


def _title_of(lore: MemoryEntry, entry: WorldInfoEntry | None) -> str:
    return (entry.comment if entry is not None else "") or lore.title


def _decide_active(lore: MemoryEntry, each: ActivatedEntry, names: Mapping[str, str]) -> ActivationDecision:
    code, woken_by = each.reason, names.get(each.woken_by, each.woken_by)
    reason = _explain_active(each, woken_by)
    if each.entry.position is WorldInfoPosition.OUTLET:
        code, reason = (
            "outlet",
            f"{reason} Its text is for outlet {each.entry.outlet_name!r}, which our prompts do not have.",
        )
    elif not each.entry.content.strip():
        code, reason = "empty", f"{reason} It has no text."
    return _decision(
        lore,
        each.entry,
        code=code,
        reason=reason,
        chosen=_is_shown(each),
        key=each.key,
        woken_by=woken_by,
        pass_number=each.pass_number,
    )


def _explain_active(each: ActivatedEntry, woken_by: str) -> str:
    where = f"the text of {woken_by}" if woken_by else "the conversation or in a field of the card"
    told = {
        "constant": "It is constant",
        "key": f"Its key {each.key!r} is in {where}",
        "sticky": "It is sticky: it was set off before, and that lasts on",
        "decorator": "Its text begins with a decorator that sets it off",
        "vector": "Its text is near to the conversation",
    }
    return f"{told.get(each.reason, f'It was set off ({each.reason})')} (pass {each.pass_number})."


def _decide_rejected(lore: MemoryEntry, each: RejectedEntry) -> ActivationDecision:
    reason = each.detail or _REJECTED.get(each.reason, "The rules of world info rejected it.")
    return _decision(lore, each.entry, code=each.reason, reason=reason)


def _decision(
    lore: MemoryEntry,
    entry: WorldInfoEntry | None,
    *,
    code: str,
    reason: str,
    chosen: bool = False,
    key: str = "",
    woken_by: str = "",
    pass_number: int = 0,
) -> ActivationDecision:
    return ActivationDecision(
        entry_id=lore.entry_id,
        title=_title_of(lore, entry),
        world="" if entry is None else entry.world,
        uid="" if entry is None else entry.uid,
        chosen=chosen,
        code=code,
        reason=reason,
        key=key,
        woken_by=woken_by,
        pass_number=pass_number,
        position="" if entry is None else _describe_place(entry),
        trust=lore.trust,
        uri=entry_uri(lore),
    )


def _describe_place(entry: WorldInfoEntry) -> str:
    if entry.position is not WorldInfoPosition.AT_DEPTH:
        return _SECTIONS[entry.position]
    return f"depth {entry.depth} ({_role_of(entry).value})"
