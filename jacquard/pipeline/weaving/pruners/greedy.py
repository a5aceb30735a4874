"""GreedyPriority pruner: MUST first, then the most important, until the first that does not fit.

It stops at the first block that does not fit and does not look for a smaller one after it. That makes packing monotone: the
result is always a prefix of one fixed order, so a bigger budget keeps all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from jacquard.core.blocks import PlacedBlock
from jacquard.core.protocols import NO_RULES, PruneBudget, PruneResult, PruneRules
from jacquard.pipeline.weaving.packing import build_steps, build_units, group_by_name, pack


class GreedyPriorityPruner:
    """Keeps blocks by priority, then rank, then place, until the budget is full."""

    def prune(self, blocks: Sequence[PlacedBlock], budget: PruneBudget, rules: PruneRules = NO_RULES) -> PruneResult:
        """Return the blocks that fit; raises BudgetExceededError if the blocks that must be kept do not."""
        units = build_units(blocks, rules, group_by_name)
        return pack(blocks, units, build_steps(units), budget, rules)
