"""DegradeToSummary pruner: blocks that do not fit completely are shortened before anything is dropped.

Pure: it only decides. A decision `shortened` states the tokens of the shorter text, which the engine's shortener writes. Tier
by tier, every block is first kept in its short form and then, newest and best first, in its complete text. Expired blocks are
never shown completely. As the conversation grows, other messages are shortened, so a prompt's stable prefix is shorter with
this policy.
"""

from __future__ import annotations

from collections.abc import Sequence

from jacquard.core.blocks import PlacedBlock
from jacquard.core.protocols import NO_RULES, PruneBudget, PruneResult, PruneRules
from jacquard.pipeline.weaving.packing import build_steps, build_units, group_by_name, pack


class DegradeToSummaryPruner:
    """Keeps the blocks that fit, shortens those that do not fit completely, and drops the rest."""

    def prune(self, blocks: Sequence[PlacedBlock], budget: PruneBudget, rules: PruneRules = NO_RULES) -> PruneResult:
        """Return the blocks that fit; raises BudgetExceededError if the blocks that must be kept do not."""
        units = build_units(blocks, rules, group_by_name, shorten=True)
        return pack(blocks, units, build_steps(units), budget, rules)
