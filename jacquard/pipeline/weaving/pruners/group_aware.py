"""Keeps or drops the blocks of one evidence item (a stored text with its source) together.

Two blocks belong together if they refer to the same evidence, directly or through other blocks, or if they have the
same `group`. Groups are kept in the order of importance until one does not fit. The greedy pruner does the same with
single blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from jacquard.core.blocks import PlacedBlock
from jacquard.core.protocols import NO_RULES, PruneBudget, PruneResult, PruneRules
from jacquard.pipeline.weaving.packing import build_steps, build_units, pack


class GroupAwarePruner:
    """Keeps groups by the priority and rank of their best block, until the budget is full."""

    def prune(self, blocks: Sequence[PlacedBlock], budget: PruneBudget, rules: PruneRules = NO_RULES) -> PruneResult:
        """Return the blocks that fit into `budget`, with a decision on every block.

        Raises BudgetExceededError if the blocks that must be kept do not fit.
        """
        units = build_units(blocks, rules, group_by_evidence)
        return pack(blocks, units, build_steps(units), budget, rules)


def group_by_evidence(blocks: Sequence[PlacedBlock]) -> list[list[int]]:
    """Return the groups as indexes of blocks; blocks of one group share evidence or a `group`."""
    parents = list(range(len(blocks)))

    def root(place: int) -> int:
        while parents[place] != place:
            parents[place] = parents[parents[place]]
            place = parents[place]
        return place

    owners: dict[str, int] = {}
    for place, each in enumerate(blocks):
        names = [f"evidence:{ref.evidence_id}" for ref in each.block.origin.refs]
        names += [f"group:{each.block.group}"] if each.block.group else []
        for name in names:
            parents[root(place)] = root(owners.setdefault(name, place))
    units: dict[int, list[int]] = {}
    for place in range(len(blocks)):
        units.setdefault(root(place), []).append(place)
    return list(units.values())
