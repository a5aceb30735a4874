"""Plans a turn in two tiers: first by rules, then by a small model if the rules are not confident.

The focus is the active quest that the turn is about. After both tiers, this module completes the plan: a locked focus
is kept, a focus that switches in many turns is flagged, and the scheduled texts that are due are listed. This module
must not import a concrete planner or a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from jacquard.adapters.observe.spans import Tracing
from jacquard.config.sections import PlannerConfig, RuntimeConfig
from jacquard.core.degradations import DegradationCode
from jacquard.core.errors import ModelError
from jacquard.core.model_calls import Call, usage_of
from jacquard.core.names import normalise
from jacquard.core.plan import PlanContext, Triage
from jacquard.core.protocols import Planner, PlanRefiner, PlanRequest
from jacquard.core.quests import find_active_quests
from jacquard.pipeline.curation.deadline import TooLateError, within
from jacquard.pipeline.curation.recall_query import recent_lines
from jacquard.pipeline.schedule import find_due_injections
from jacquard.pipeline.worlds import party_names
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.core.off_loop import on_loop, run_off_loop
from mnemosyne.schema.document import ModelUsage, ModelUsageStage
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass

_log = open_log(__name__)
UNSTEADY_SWITCHES = 3
UNSTEADY = "focus_unsteady"
PlanListener = Callable[[PlanContext], None]


def _ignore_plan(plan: PlanContext) -> None:
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanResult:
    """Plan of a turn, the records of its model calls, and degradations as `code: detail`."""

    plan: PlanContext
    usages: tuple[ModelUsage, ...] = ()
    degradations: tuple[str, ...] = ()


class TurnPlanner:
    """Plans turns. `planner` is tier 0 (rules), and `refiner` is tier 1 (a small model; None: only rules plan)."""

    def __init__(self, planner: Planner, refiner: PlanRefiner | None, tracing: Tracing) -> None:
        self._planner, self._refiner, self._tracing = planner, refiner, tracing

    async def plan(
        self,
        user_message: str,
        window: SessionWindow,
        world: WorldPack,
        config: RuntimeConfig,
        turn_id: str = "",
        *,
        on_plan: PlanListener = _ignore_plan,
    ) -> PlanResult:
        """Return the plan of the turn that follows the messages in `window`. If tier 1 fails for any reason, the plan
        of tier 0 is used.

        `turn_id` is the id of the turn, for the records of model calls. `on_plan` is called with the plan of tier 0
        before tier 1 is called, so that work with the plan's search words can begin early. `on_plan` is not called if
        the plan searches for nothing.
        """
        with self._tracing.span("jacquard.plan", {"gen_ai.operation.name": "plan"}) as span:
            rules, locked = await run_off_loop(self._plan_by_rules, user_message, window, world, config.planner)
            if rules.search_intent.enabled:
                on_plan(rules)
            planned = await self._refine_plan(user_message, window, world, config.planner, rules, locked)
            plan = count_focus_switches(planned.plan, window)
            due, injected_at = await run_off_loop(find_due_injections, window, world)
            if plan.triage is Triage.NUMERICAL:
                due, injected_at = (), dict(_previous_plan(window).get("injected_at", {}))
            plan = replace(plan, injections=due, injected_at=injected_at)
            span.put({"jacquard.plan.tier": plan.tier, "jacquard.plan.confidence": plan.confidence})
        usages = tuple(
            replace(
                usage,
                model_usage_id=f"{turn_id}.plan" if number == 1 else f"{turn_id}.plan.{number}",
                extra={**usage.extra, "turn_id": turn_id},
            )
            for number, usage in enumerate(planned.usages, start=1)
        )
        failed = tuple(flag for flag in rules.flags if flag == DegradationCode.ACTION_PATTERN_FAILED)
        return replace(planned, plan=plan, usages=usages, degradations=(*failed, *planned.degradations))

    def _plan_by_rules(
        self, user_message: str, window: SessionWindow, world: WorldPack, settings: PlannerConfig
    ) -> tuple[PlanContext, bool]:
        """Return the plan of tier 0, and whether its focus may not move."""
        rules = self._planner.plan(user_message, window, world)
        return with_focus(rules, settings, window), is_locked(settings, window, world)

    async def _refine_plan(
        self,
        user_message: str,
        window: SessionWindow,
        world: WorldPack,
        settings: PlannerConfig,
        rules: PlanContext,
        locked: bool,
    ) -> PlanResult:
        least = settings.confidence_threshold
        if least is None:
            least = world.planner.confidence_threshold
        if rules.triage is Triage.NUMERICAL or rules.confidence >= least:
            return PlanResult(plan=rules)
        if self._refiner is None:
            return PlanResult(plan=replace(rules, tier1="no_model"))
        recent = recent_lines(window.messages, party_names(world))
        request = PlanRequest(
            user_message=user_message, recent=recent, plan=rules, window=window, world=world, locked=locked
        )
        try:
            plan, usages = await on_loop(within, settings.timeout_ms, self._refiner.refine, request)
        except TooLateError:
            waited = f"the small model had not answered after {settings.timeout_ms} ms"
            # The provider may have charged for the cancelled call, so it is recorded with unknown tokens.
            call = Call(model=self._refiner.model, latency_ms=settings.timeout_ms)
            usage = usage_of("", call, len, stage=ModelUsageStage.PLAN, purpose="plan", error=f"timeout: {waited}")
            return _keep_rules_plan(rules, "timeout", waited, (usage,))
        except ModelError as error:
            return _keep_rules_plan(rules, error.code, error.detail, error.usages)
        except Exception as error:
            # A refiner of the host may raise anything; the plan of the rules is always available.
            _log.exception("planner tier 1 broke")
            return _keep_rules_plan(rules, "internal", f"planner tier 1 broke off ({type(error).__name__}: {error})")
        return PlanResult(plan=plan, usages=usages)


def _keep_rules_plan(rules: PlanContext, code: str, detail: str, usages: tuple[ModelUsage, ...] = ()) -> PlanResult:
    plan = replace(rules, tier1=code, reasons=(*rules.reasons, f"the rules' plan stands: {detail}"))
    return PlanResult(plan=plan, usages=usages, degradations=(f"{DegradationCode.PLANNER_TIER1}: {code}: {detail}",))


def is_locked(settings: PlannerConfig, window: SessionWindow, world: WorldPack) -> bool:
    """Return whether the focus must not be changed.

    The focus is locked if the world locks it, or if the configuration names an active quest as focus.
    """
    return world.planner.focus_locked or _find_locked_quest(settings, window) is not None


def with_focus(plan: PlanContext, settings: PlannerConfig, window: SessionWindow) -> PlanContext:
    """Return `plan` with the quest that `settings` name as the focus, and with the goal of this quest.

    If `settings` name no quest, `plan` is returned unchanged. If the named quest is not active, only a reason is added
    to the plan.
    """
    quest_id = _find_locked_quest(settings, window)
    if settings.focus is not None and quest_id is None:
        return replace(plan, reasons=(*plan.reasons, f"the locked focus {settings.focus} is no active quest"))
    if quest_id is None or quest_id == plan.active_quest_id:
        return plan
    quest = next(quest for quest in find_active_quests(window.state) if quest.quest_id == quest_id)
    steps = quest.open_objectives
    goal = steps[0].text if steps else quest.description or quest.title
    return replace(
        plan, active_quest_id=quest_id, current_goal=goal, reasons=(*plan.reasons, f"the focus is locked on {quest_id}")
    )


def _find_locked_quest(settings: PlannerConfig, window: SessionWindow) -> str | None:
    if settings.focus is None:
        return None
    active = {quest.quest_id for quest in find_active_quests(window.state)}
    return settings.focus if settings.focus in active else None


def count_focus_switches(plan: PlanContext, window: SessionWindow) -> PlanContext:
    """Return `plan` with the number of consecutive turns that switched the focus while the topic stayed the same.

    From the third switch on, the plan is flagged. A turn switches the focus if its active quest differs from the active
    quest of the previous turn. The topic is the same if both turns share a keyword or an entity, or if neither turn has
    a keyword or an entity. A numerical turn (answered by an action) keeps the number of the previous turn.
    """
    before = _previous_plan(window)
    count = int(before.get("switches", 0))
    if plan.triage is Triage.NUMERICAL:
        return replace(plan, switches=count)
    then, now = before.get("active_quest_id"), plan.active_quest_id
    if then is None or now is None or then == now:
        return replace(plan, switches=0)
    count = count + 1 if _is_same_topic(before, plan) else 1
    if count < UNSTEADY_SWITCHES:
        return replace(plan, switches=count)
    reason = f"the focus moved {count} turns in a row although the topic stayed; look at the entities of these quests"
    return replace(plan, switches=count, flags=(*plan.flags, UNSTEADY), reasons=(*plan.reasons, reason))


def _previous_plan(window: SessionWindow) -> Mapping[str, Any]:
    plan = window.previous.plan if window.previous is not None else None
    return plan if plan is not None else {}


def _is_same_topic(before: Mapping[str, Any], plan: PlanContext) -> bool:
    then = {normalise(str(word)) for word in before.get("search_intent", {}).get("focus_keywords", ())}
    then |= {str(name) for name in before.get("entities", ())}
    now = {normalise(word) for word in plan.search_intent.focus_keywords} | set(plan.entities)
    return bool(then & now) if then or now else True
