"""Orders the blocks of both streams and removes duplicates. The result is a skein: the ordered blocks of one prompt. Pure.

Each stage takes the skein of the previous stage and returns a new one. This module has no budget; `truncate` removes the blocks
that a pruner dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from jacquard.core.blocks import (
    Block,
    BlockOrigin,
    BlockPlace,
    PlacedBlock,
    Placement,
    Position,
    Skein,
    SkeinTemplate,
    SlotRule,
    Stage,
    place_block,
)
from jacquard.core.receipt import Action, BlockDecision, decide_block
from mnemosyne.core.codec import replace_struct
from mnemosyne.schema.evidence import Priority
from mnemosyne.schema.memory import LoreCategory
from mnemosyne.values import dataclass

_LAST_SLOT = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class WovenSkein:
    """Skein without duplicates, a decision on each dropped duplicate, and the skein of every stage."""

    skein: Skein
    dropped: tuple[BlockDecision, ...]
    stages: tuple[Skein, ...]


def weave(
    blocks: Sequence[Block],
    history: Sequence[Block],
    user_input: Block,
    layout: SkeinTemplate,
    layer_attributes: Mapping[str, Mapping[str, str]] | None = None,
) -> WovenSkein:
    """Order all blocks by `layout`, and remove duplicates. `history` is oldest first.

    `layer_attributes` maps layers to the attributes of their wrappers. The result may exceed the budget of the prompt;
    `truncate` removes blocks later.
    """
    rules = _placements(layout.rules)
    placed = [place_block(block, _find_placement(block.place, rules)) for block in blocks]
    skeleton = Skein(
        stage=Stage.SKELETON,
        system=tuple(sorted((b for b in placed if b.placement.position is Position.SYSTEM), key=_system_key)),
        pending=tuple(b for b in placed if b.placement.position is not Position.SYSTEM),
        layer_attributes=layer_attributes or {},
        separate=layout.separate,
        boundary=layout.boundary,
        alternates=layout.alternates,
    )
    anchored = replace(
        skeleton,
        stage=Stage.ANCHORED,
        history=tuple([place_block(block) for block in history]),
        user_input=place_block(user_input),
    )
    stitched = _stitch(anchored)
    skein, dropped = _deduplicate(stitched)
    return WovenSkein(skein=skein, dropped=dropped, stages=(skeleton, anchored, stitched, skein))


def truncate(skein: Skein, standing: Mapping[str, PlacedBlock]) -> Skein:
    """Return the skein with only those blocks whose ids are in `standing` (id -> block). Each block is replaced by the
    one in `standing`.

    The user input always stays, even if it is not in `standing`.
    """

    def cut(line: tuple[PlacedBlock, ...]) -> tuple[PlacedBlock, ...]:
        return tuple([standing[b.block.block_id] for b in line if b.block.block_id in standing])

    spoken = skein.user_input
    return replace(
        skein,
        stage=Stage.TRUNCATED,
        system=cut(skein.system),
        history=cut(skein.history),
        anchor=cut(skein.anchor),
        user_input=None if spoken is None else standing.get(spoken.block.block_id, spoken),
    )


def _find_placement(place: BlockPlace, rules: Mapping[str, Placement]) -> Placement:
    named = rules.get(f"{place.slot}.{place.section}") or rules.get(place.slot)
    if named is not None:
        return named
    return place.placement if place.placement.order else replace_struct(place.placement, order=_LAST_SLOT)


@lru_cache(maxsize=64)
def _placements(rules: tuple[SlotRule, ...]) -> Mapping[str, Placement]:
    """Return the place of each slot by the rules of a layout; of two rules for one slot, the first counts."""
    return {
        rule.slot: Placement(position=rule.position, priority=rule.priority, depth=rule.depth, order=rule.order)
        for rule in reversed(rules)
    }


def _system_key(placed: PlacedBlock) -> tuple[int, str, int, str, int, str]:
    block, place = placed.block, placed.block.place
    order = placed.placement.order
    return (order, place.layer or "", place.sequence, place.section or "", block.rank, block.block_id)


def _nearness_key(placed: PlacedBlock) -> tuple[int, int, str, int, str]:
    """Return the sort key of a place: blocks of higher priority come later, nearer to the user input."""
    block, place = placed.block, placed.block.place
    return (placed.placement.priority, place.sequence, place.section or "", block.rank, block.block_id)


def _stitch(skein: Skein) -> Skein:
    by_position: dict[Position, list[PlacedBlock]] = {}
    for block in sorted(skein.pending, key=_nearness_key):
        by_position.setdefault(block.placement.position, []).append(block)
    line: list[PlacedBlock] = list(by_position.get(Position.BEFORE_HISTORY, ()))
    inside = by_position.get(Position.IN_HISTORY, ())
    appended: dict[str, list[PlacedBlock]] = {}
    for block in by_position.get(Position.APPENDED, ()):
        appended.setdefault(block.block.place.anchor, []).append(block)
    message_count = len(skein.history)
    for place in range(message_count + 1):
        newer = message_count - place
        line += [b for b in inside if min(b.placement.depth, message_count) == newer]
        if place < message_count:
            line += appended.pop(skein.history[place].block.block_id, ())
            line.append(skein.history[place])
    line += (block for blocks in appended.values() for block in blocks)
    line += by_position.get(Position.AFTER_HISTORY, ())
    anchor = tuple(by_position.get(Position.USER_ANCHOR, ()))
    return replace(skein, stage=Stage.STITCHED, history=tuple(line), anchor=anchor, pending=())


def _deduplicate(skein: Skein) -> tuple[Skein, tuple[BlockDecision, ...]]:
    blocks = skein.blocks()
    # An entity's present state replaces its encyclopedia entry.
    origins = [each.block.origin for each in blocks]
    subjects = {
        origin.entities[0]: each
        for each, origin in zip(blocks, origins, strict=True)
        if origin.category is LoreCategory.AGENT and origin.entities
    }
    seen = _index_lasting_contents(blocks)
    dropped: list[BlockDecision] = []
    out: set[int] = set()
    for each, origin in zip(blocks, origins, strict=True):
        names = _names(origin)
        first = next((seen[name] for name in sorted(names) if name in seen and seen[name] is not each), None)
        cover = None
        if origin.category is LoreCategory.ENCYCLOPEDIA and origin.entities:
            cover = subjects.get(origin.entities[0])
        if first is not None:
            code, reason = "duplicate", f"{first.block.block_id} says the same already."
        elif cover is not None:
            code, reason = "covered", f"{cover.block.block_id} tells of {origin.entities[0]} as it is now."
        else:
            seen.update(dict.fromkeys(names, each))
            continue
        dropped.append(decide_block(each.block, Action.DROPPED, code, reason, each.tokens))
        # By identity, because a duplicate may be equal to the block that stays.
        out.add(id(each))
    if not out:
        return replace(skein, stage=Stage.DEDUPLICATED), ()

    def keep(line: tuple[PlacedBlock, ...]) -> tuple[PlacedBlock, ...]:
        return tuple([b for b in line if id(b) not in out])

    clean = replace(
        skein,
        stage=Stage.DEDUPLICATED,
        system=keep(skein.system),
        history=keep(skein.history),
        anchor=keep(skein.anchor),
    )
    return clean, tuple(dropped)


def _index_lasting_contents(blocks: Sequence[PlacedBlock]) -> dict[str, PlacedBlock]:
    """Return the blocks that must stay by the names of their contents; they come before all others, whatever their position."""
    seen: dict[str, PlacedBlock] = {}
    for each in blocks:
        if each.block.priority is Priority.MUST:
            seen = {**dict.fromkeys(_names(each.block.origin), each), **seen}
    return seen


def _names(origin: BlockOrigin) -> set[str]:
    """Return the names of a block's contents: its address, and each evidence item that it shows completely."""
    names = {f"evidence:{ref.evidence_id}" for ref in origin.refs if ref.selector is None} if origin.refs else set()
    if origin.uri:
        names.add(f"at:{origin.uri}")
    return names
