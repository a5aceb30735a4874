"""GreedyPriority pruner (seed 002 section 8.2): must first, then the most important until the first that does not fit.

Stopping at the first overflow, instead of looking for something smaller behind it, is what makes packing monotone: what
a budget keeps is always a prefix of one fixed order, so a bigger budget keeps all of it (spec P6).
"""

from __future__ import annotations

from collections.abc import Sequence

from jacquard.core.blocks import PromptBlock
from jacquard.core.protocols import NO_RULES, PruneBudget, PruneResult, PruneRules
from jacquard.pipeline.weaving.packing import by_group, pack, units_of, whole_steps


class GreedyPriorityPruner:
    """Keeps blocks by priority, then rank, then place, until the budget is full."""

    def prune(self, blocks: Sequence[PromptBlock], budget: PruneBudget, rules: PruneRules = NO_RULES) -> PruneResult:
        """Return what fits; BudgetExceededError when what must be kept does not."""
        units = units_of(blocks, rules, by_group)
        return pack(blocks, units, whole_steps(units), budget, rules)
