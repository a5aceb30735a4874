"""DegradeToSummary pruner (seed 002 section 8.2): what does not fit whole is shortened before anything is dropped.

Pure: it only decides. A decision `shortened` says how many tokens the shorter text may have; the engine has a shortener
write it. Tier by tier, every block is first kept in its short form, then, newest and best first, in its whole text. What is too
old is never shown whole. Which messages are shortened changes as the conversation goes on, so a prompt's stable prefix is
shorter under this policy.
"""

from __future__ import annotations

from collections.abc import Sequence

from jacquard.core.blocks import PromptBlock
from jacquard.core.protocols import NO_RULES, PruneBudget, PruneResult, PruneRules
from jacquard.pipeline.weaving.packing import by_group, pack, shortening_steps, units_of


class DegradeToSummaryPruner:
    """Keeps what fits, shortens what does not fit whole, and drops the rest."""

    def prune(self, blocks: Sequence[PromptBlock], budget: PruneBudget, rules: PruneRules = NO_RULES) -> PruneResult:
        """Return what fits; BudgetExceededError when what must be kept does not."""
        units = units_of(blocks, rules, by_group, shorten=True)
        return pack(blocks, units, shortening_steps(units), budget, rules)
