"""Keeps blocks of a prompt in the order of their importance until one does not fit into the budget.

After the first block that does not fit, no smaller block is tried. The kept blocks are therefore always the first ones of a fixed
order, and a bigger budget keeps everything that a smaller budget keeps.
"""

from __future__ import annotations

from collections.abc import Sequence

from jacquard.core.blocks import PlacedBlock
from jacquard.core.protocols import NO_RULES, PruneBudget, PruneResult, PruneRules
from jacquard.pipeline.weaving.packing import build_steps, build_units, group_by_name, pack


class GreedyPriorityPruner:
    """Keeps blocks by priority, then rank, then place, until the budget is full."""

    def prune(self, blocks: Sequence[PlacedBlock], budget: PruneBudget, rules: PruneRules = NO_RULES) -> PruneResult:
        """Return the blocks that fit into `budget`, with a decision on every block.

        Raises BudgetExceededError if the blocks that must be kept do not fit.
        """
        units = build_units(blocks, rules, group_by_name)
        return pack(blocks, units, build_steps(units), budget, rules)
