"""The pruner `sample`: the greedy one, whose decisions say who took them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jacquard import NO_RULES, GreedyPriorityPruner, PlacedBlock, PruneBudget, PruneResult, PruneRules


class ExplainingPruner:
    """A pruner on top of the shipped one."""

    def __init__(self, argument: str = "") -> None:
        self._greedy = GreedyPriorityPruner()

    def prune(self, blocks: Sequence[PlacedBlock], budget: PruneBudget, rules: PruneRules = NO_RULES) -> PruneResult:
        """Return what the greedy pruner returns, with a word more in every reason."""
        result = self._greedy.prune(blocks, budget, rules)
        decisions = (replace(each, reason=f"sample: {each.reason}") for each in result.decisions)
        return replace(result, decisions=tuple(decisions))
