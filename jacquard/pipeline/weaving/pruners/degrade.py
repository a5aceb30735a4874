"""DegradeToSummary pruner (seed 002 section 8.2): what does not fit whole is shortened before anything is dropped.

Pure: it only decides. A decision `shortened` says how many tokens the shorter text may have; the engine has a shortener
write it. Tier by tier, every block is first kept in its short form and then, newest and best first, in its whole text.
Blocks that are too old are never shown whole. As the conversation grows, other messages are shortened, so a prompt's
stable prefix is shorter under this policy.
"""

from __future__ import annotations

from collections.abc import Sequence

from jacquard.core.blocks import PromptBlock
from jacquard.core.protocols import NO_RULES, PruneBudget, PruneResult, PruneRules
from jacquard.pipeline.weaving.packing import build_steps, build_units, group_by_name, pack


class DegradeToSummaryPruner:
    """Keeps what fits, shortens what does not fit whole, and drops the rest."""

    def prune(self, blocks: Sequence[PromptBlock], budget: PruneBudget, rules: PruneRules = NO_RULES) -> PruneResult:
        """Return what fits. Raises BudgetExceededError when what must be kept does not."""
        units = build_units(blocks, rules, group_by_name, shorten=True)
        return pack(blocks, units, build_steps(units, rules), budget, rules)
