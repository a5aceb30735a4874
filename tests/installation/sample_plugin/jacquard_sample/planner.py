"""The planner `sample:TEMPLATE`: plans by the shipped rules, and always takes one template."""

from __future__ import annotations

from dataclasses import replace

from jacquard import PlanContext
from jacquard.pipeline.planning.rules import RulePlanner
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.world import WorldPack


class TemplatePlanner:
    """A planner on top of the rules."""

    def __init__(self, argument: str) -> None:
        self._template_id = argument or "chat"
        self._rules = RulePlanner()

    def plan(self, user_message: str, window: SessionWindow, world: WorldPack) -> PlanContext:
        """Return the plan of the rules with the template of this planner."""
        plan = self._rules.plan(user_message, window, world)
        reasons = (*plan.reasons, f"sample: always {self._template_id}")
        return replace(plan, template_id=self._template_id, reasons=reasons)
