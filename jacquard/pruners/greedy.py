"""GreedyPriority pruner (seed 002 section 8.2): must first, then the most important until the first that does not fit.

Stopping at the first overflow, instead of looking for something smaller behind it, is what makes packing monotone: what
a budget keeps is always a prefix of one fixed order, so a bigger budget keeps all of it (spec P6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jacquard.errors import BudgetExceededError
from jacquard.protocols import PruneResult
from jacquard.report import Action, BlockDecision
from jacquard.skein import PromptBlock
from mnemosyne.schema.evidence import Priority

_ORDER = {Priority.MUST: 0, Priority.HIGH: 1, Priority.MEDIUM: 2, Priority.LOW: 3}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Unit:
    """Blocks that live or die together, by their places in the input."""

    members: tuple[int, ...]
    tokens: int
    key: tuple[int, int, int]


class GreedyPriorityPruner:
    """Keeps blocks by priority, then rank, then place, until the budget is full."""

    def prune(self, blocks: Sequence[PromptBlock], limit_tokens: int) -> PruneResult:
        """Return what fits into `limit_tokens`; BudgetExceededError when the must blocks alone do not."""
        units = sorted(_units(blocks), key=lambda unit: unit.key)
        must_tokens = sum(unit.tokens for unit in units if unit.key[0] == 0)
        if must_tokens > limit_tokens:
            raise BudgetExceededError(limit_tokens, must_tokens, _must_blocks(blocks, units))
        decisions: dict[int, BlockDecision] = {}
        used, full = 0, False
        for unit in units:
            overflow = not full and used + unit.tokens > limit_tokens
            room = limit_tokens - used
            full = full or overflow
            if not full:
                used += unit.tokens
            for place in unit.members:
                decisions[place] = _decide(blocks[place], unit, kept=not full, first_out=overflow, room=room)
        kept = tuple(block for place, block in enumerate(blocks) if decisions[place].action is Action.KEPT)
        return PruneResult(kept=kept, decisions=tuple(decisions[place] for place in range(len(blocks))))


def _units(blocks: Sequence[PromptBlock]) -> list[_Unit]:
    groups: dict[str, list[int]] = {}
    for place, block in enumerate(blocks):
        groups.setdefault(f"group:{block.group}" if block.group else f"block:{place}", []).append(place)
    return [
        _Unit(
            members=tuple(places),
            tokens=sum(blocks[place].tokens for place in places),
            key=min((_ORDER[blocks[place].priority], blocks[place].rank, place) for place in places),
        )
        for places in groups.values()
    ]


def _must_blocks(blocks: Sequence[PromptBlock], units: Sequence[_Unit]) -> tuple[tuple[str, int], ...]:
    places = [place for unit in units if unit.key[0] == 0 for place in unit.members]
    return tuple(sorted(((blocks[p].block_id, blocks[p].tokens) for p in places), key=lambda pair: (-pair[1], pair[0])))


def _decide(block: PromptBlock, unit: _Unit, *, kept: bool, first_out: bool, room: int) -> BlockDecision:
    if kept and block.priority is Priority.MUST:
        code, reason = "must", "It must be in every prompt."
    elif kept:
        code, reason = "fits", f"It fits the budget ({block.priority.value} priority, rank {block.rank})."
    elif first_out:
        code, reason = "over_budget", f"It needs {unit.tokens} tokens and {room} were left."
    else:
        code, reason = "after_cut", "The budget was full before its turn came."
    return BlockDecision(
        block_id=block.block_id,
        action=Action.KEPT if kept else Action.DROPPED,
        code=code,
        reason=reason,
        tokens=block.tokens,
        source=block.source,
        title=block.title,
        trust=block.trust,
    )
