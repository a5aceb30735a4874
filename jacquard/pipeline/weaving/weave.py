"""Weaving: the blocks of both streams become one skein, stage by stage.

Pure: no store, no clock, no budget of its own. Each stage takes the skein of the previous stage and returns a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from jacquard.core.blocks import Placement, Position, PromptBlock, Skein, SkeinTemplate, SlotRule, Stage
from jacquard.core.receipt import Action, BlockDecision, decide_block
from mnemosyne.schema.evidence import Priority
from mnemosyne.schema.memory import LoreCategory

_LAST_SLOT = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class WovenSkein:
    """Deduplicated skein with the decisions of the deduplication, and every stage for inspection."""

    skein: Skein
    dropped: tuple[BlockDecision, ...]
    stages: tuple[Skein, ...]


def weave(
    blocks: Sequence[PromptBlock],
    history: Sequence[PromptBlock],
    user_input: PromptBlock,
    layout: SkeinTemplate,
    layer_attributes: Mapping[str, Mapping[str, str]] | None = None,
) -> WovenSkein:
    """Run the stages up to deduplication; `history` is oldest first. `truncate` cuts the result to the budget."""
    rules = _placements(layout.rules)
    placed = [_place(block, rules) for block in blocks]
    skeleton = Skein(
        stage=Stage.SKELETON,
        system=tuple(sorted((b for b in placed if b.placement.position is Position.SYSTEM), key=_system_key)),
        pending=tuple(b for b in placed if b.placement.position is not Position.SYSTEM),
        layer_attributes=layer_attributes or {},
        separate=layout.separate,
        boundary=layout.boundary,
        alternates=layout.alternates,
    )
    anchored = replace(skeleton, stage=Stage.ANCHORED, history=tuple(history), user_input=user_input)
    stitched = _stitch(anchored)
    skein, dropped = _deduplicate(stitched)
    return WovenSkein(skein=skein, dropped=dropped, stages=(skeleton, anchored, stitched, skein))


def truncate(skein: Skein, standing: Mapping[str, PromptBlock]) -> Skein:
    """Return the skein with only the blocks in `standing`, each in the form it has there (unchanged, or shortened).

    The user input always stays.
    """

    def cut(line: tuple[PromptBlock, ...]) -> tuple[PromptBlock, ...]:
        return tuple(standing[b.block_id] for b in line if b.block_id in standing)

    spoken = skein.user_input
    return replace(
        skein,
        stage=Stage.TRUNCATED,
        system=cut(skein.system),
        history=cut(skein.history),
        anchor=cut(skein.anchor),
        user_input=None if spoken is None else standing.get(spoken.block_id, spoken),
    )


def _place(block: PromptBlock, rules: Mapping[str, Placement]) -> PromptBlock:
    placement = _placement(block, rules)
    # Appended blocks stay in the prompts that follow.
    is_volatile = block.volatile and placement.position is not Position.APPENDED
    return replace(block, placement=placement, volatile=is_volatile)


def _placement(block: PromptBlock, rules: Mapping[str, Placement]) -> Placement:
    named = rules.get(f"{block.slot}.{block.section}") or rules.get(block.slot)
    if named is not None:
        return named
    return block.placement if block.placement.order else replace(block.placement, order=_LAST_SLOT)


@lru_cache(maxsize=64)
def _placements(rules: tuple[SlotRule, ...]) -> Mapping[str, Placement]:
    """Return the place of each slot by the rules of a layout; of two rules for one slot, the first counts."""
    return {
        rule.slot: Placement(position=rule.position, priority=rule.priority, depth=rule.depth, order=rule.order)
        for rule in reversed(rules)
    }


def _system_key(block: PromptBlock) -> tuple[int, str, int, str, int, str]:
    place = (block.placement.order, block.layer or "", block.sequence)
    return (*place, block.section or "", block.rank, block.block_id)


def _nearness_key(block: PromptBlock) -> tuple[int, int, str, int, str]:
    """Return the sort key of a place: blocks of higher priority come later, nearer to the user input."""
    return (block.placement.priority, block.sequence, block.section or "", block.rank, block.block_id)


def _stitch(skein: Skein) -> Skein:
    by_position: dict[Position, list[PromptBlock]] = {}
    for block in sorted(skein.pending, key=_nearness_key):
        by_position.setdefault(block.placement.position, []).append(block)
    line: list[PromptBlock] = list(by_position.get(Position.BEFORE_HISTORY, ()))
    inside = by_position.get(Position.IN_HISTORY, ())
    appended: dict[str, list[PromptBlock]] = {}
    for block in by_position.get(Position.APPENDED, ()):
        appended.setdefault(block.anchor, []).append(block)
    message_count = len(skein.history)
    for place in range(message_count + 1):
        newer = message_count - place
        line += [b for b in inside if min(b.placement.depth, message_count) == newer]
        if place < message_count:
            line += appended.pop(skein.history[place].block_id, ())
            line.append(skein.history[place])
    line += (block for blocks in appended.values() for block in blocks)
    line += by_position.get(Position.AFTER_HISTORY, ())
    anchor = tuple(by_position.get(Position.USER_ANCHOR, ()))
    return replace(skein, stage=Stage.STITCHED, history=tuple(line), anchor=anchor, pending=())


def _deduplicate(skein: Skein) -> tuple[Skein, tuple[BlockDecision, ...]]:
    blocks = skein.blocks()
    # An entity's present state replaces its encyclopedia entry.
    subjects = {b.entities[0]: b for b in blocks if b.category is LoreCategory.AGENT and b.entities}
    seen = _index_lasting_contents(blocks)
    dropped: list[BlockDecision] = []
    out: set[int] = set()
    for block in blocks:
        names = _names(block)
        first = next((seen[name] for name in sorted(names) if name in seen and seen[name] is not block), None)
        cover = None
        if block.category is LoreCategory.ENCYCLOPEDIA and block.entities:
            cover = subjects.get(block.entities[0])
        if first is not None:
            dropped.append(decide_block(block, Action.DROPPED, "duplicate", f"{first.block_id} says the same already."))
        elif cover is not None:
            dropped.append(
                decide_block(
                    block, Action.DROPPED, "covered", f"{cover.block_id} tells of {block.entities[0]} as it is now."
                )
            )
        else:
            seen.update(dict.fromkeys(names, block))
            continue
        # By identity, because a duplicate may be equal to the block that stays.
        out.add(id(block))

    def keep(line: tuple[PromptBlock, ...]) -> tuple[PromptBlock, ...]:
        return tuple(b for b in line if id(b) not in out)

    clean = replace(
        skein,
        stage=Stage.DEDUPLICATED,
        system=keep(skein.system),
        history=keep(skein.history),
        anchor=keep(skein.anchor),
    )
    return clean, tuple(dropped)


def _index_lasting_contents(blocks: Sequence[PromptBlock]) -> dict[str, PromptBlock]:
    """Return the blocks that must stay by the names of their contents; they come before all others, whatever their position."""
    seen: dict[str, PromptBlock] = {}
    for block in blocks:
        if block.priority is Priority.MUST:
            seen = {**dict.fromkeys(_names(block), block), **seen}
    return seen


def _names(block: PromptBlock) -> set[str]:
    """Return the names of a block's contents: its address, and each evidence item that it shows completely."""
    names = {f"evidence:{ref.evidence_id}" for ref in block.refs if ref.selector is None}
    return names | {f"at:{block.uri}"} if block.uri else names
