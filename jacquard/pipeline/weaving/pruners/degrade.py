"""Prunes a prompt so that blocks which do not fit completely are shortened before any block is dropped.

A block with the decision `shortened` gets fewer tokens, and the engine writes a text that fits into these tokens. In
each priority, every block is first kept in its short form. Then blocks get their complete text, best first. Expired
blocks are never shown completely.

As the conversation grows, different messages are shortened in each turn. Therefore the prefix cache of a provider can
reuse less of a prompt than with other pruners.
"""

from __future__ import annotations

from collections.abc import Sequence

from jacquard.core.blocks import PlacedBlock
from jacquard.core.protocols import NO_RULES, PruneBudget, PruneResult, PruneRules
from jacquard.pipeline.weaving.packing import build_steps, build_units, group_by_name, pack


class DegradeToSummaryPruner:
    """Keeps the blocks that fit, shortens those that do not fit completely, and drops the rest."""

    def prune(self, blocks: Sequence[PlacedBlock], budget: PruneBudget, rules: PruneRules = NO_RULES) -> PruneResult:
        """Return the blocks that fit into `budget`, complete or shortened, with a decision on every block.

        Raises BudgetExceededError if the blocks that must be kept do not fit.
        """
        units = build_units(blocks, rules, group_by_name, shorten=True)
        return pack(blocks, units, build_steps(units), budget, rules)
