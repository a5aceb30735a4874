"""Defines the plan of one turn (the planner's decisions before a prompt is made), and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from mnemosyne.core import codec
from mnemosyne.values import dataclass
from mnemosyne.world.activation.values import TimedEffects

MAX_KEYWORDS = 12
"""Maximum number of search words in a plan."""

KEYWORD_CHARS = 60
"""Maximum length of a search word that the rules guess or a model returns, in characters."""


class Triage(StrEnum):
    """Kind of input. NUMERICAL: a declared action of the world answers the input, without a model. NARRATIVE: a model
    answers the input.
    """

    NUMERICAL = "numerical"
    NARRATIVE = "narrative"


class Temporal(StrEnum):
    """Time that the input refers to."""

    NOW = "now"
    PAST = "past"
    FUTURE = "future"


class OverviewScope(StrEnum):
    """Subject of an overview that the input asks for.

    ALL is everything that happened, THING is named things, and OWN is the player's items and tasks. If the input names single
    quests, persons, places or things, the overview covers only these.
    """

    ALL = "all"
    QUEST = "quest"
    PERSON = "person"
    PLACE = "place"
    THING = "thing"
    OWN = "own"


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchIntent:
    """Search for memories that Stream B (recall and selection) makes in a turn."""

    enabled: bool
    focus_keywords: tuple[str, ...] = ()
    temporal_context: Temporal = Temporal.NOW
    """Time that the input refers to."""
    domain_weight: Mapping[str, float] = field(
        default_factory=lambda: MappingProxyType({"narrative": 0.5, "lore": 0.5, "event": 0.5})
    )
    """Weights 0..1 of the domains `narrative`, `lore` and `event`; they need not add up to 1."""
    overview: OverviewScope | None = None
    """Subject of the overview (many memories spread over time) that the input asks for. None: the input does not ask
    for an overview, and recall searches for memories that fit the input.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldInfoState:
    """State of the world info rules (lore activated by keywords), carried from one turn to the next on a branch."""

    chat_length: int = 0
    """Number of messages, including the turn's input."""
    effects: TimedEffects = field(default_factory=TimedEffects)
    """Timed effects (such as cooldowns) that are still active."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanContext:
    """The planner's decisions for one turn; stored with the turn."""

    triage: Triage
    active_quest_id: str | None
    current_goal: str
    template_id: str
    search_intent: SearchIntent
    entities: tuple[str, ...] = ()
    """Ids of world entities found in the input, in order of appearance."""
    action_id: str | None = None
    """Id of the numerical action that answers the input (None: a model answers)."""
    tier: int = 0
    """0: only rules made the plan. 1: a small model helped."""
    confidence: float = 1.0
    """Confidence of the rules in their plan, 0..1."""
    reasons: tuple[str, ...] = ()
    """Short sentences that explain the decisions."""
    tier1: str = ""
    """Outcome of planner tier 1 (the small model): '' if the model was not needed, `no_model`, `planned`, or the reason
    why it failed.
    """
    switches: int = 0
    """Number of consecutive turns in which the focus (the active quest) changed while the topic stayed the same."""
    flags: tuple[str, ...] = ()
    """Things that a person should check."""
    injections: tuple[str, ...] = ()
    """Ids of the scheduled texts of this turn."""
    injected_at: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Id of a scheduled text -> number of the turn in which the text was last due on this branch."""
    world_info: WorldInfoState | None = None
    """State that the world info rules of SillyTavern left for the next turn (None: these rules were not used on this branch)."""


def plan_to_json(plan: PlanContext) -> dict[str, Any]:
    """Return the plan as a JSON value with snake_case keys, for `plan_from_json`."""
    intent = plan.search_intent
    return {
        "active_quest_id": plan.active_quest_id,
        "current_goal": plan.current_goal,
        "template_id": plan.template_id,
        "search_intent": {
            "enabled": intent.enabled,
            "focus_keywords": list(intent.focus_keywords),
            "temporal_context": intent.temporal_context.value,
            "domain_weight": dict(intent.domain_weight),
            **({} if intent.overview is None else {"overview": intent.overview.value}),
        },
        "triage": plan.triage.value,
        "tier": plan.tier,
        "confidence": plan.confidence,
        "entities": list(plan.entities),
        "action_id": plan.action_id,
        "reasons": list(plan.reasons),
        "tier1": plan.tier1,
        "switches": plan.switches,
        "flags": list(plan.flags),
        "injections": list(plan.injections),
        "injected_at": dict(plan.injected_at),
        **({} if plan.world_info is None else {"world_info": codec.to_plain(plan.world_info)}),
    }


def plan_from_json(value: Mapping[str, Any]) -> PlanContext:
    """Return the plan that `plan_to_json` wrote as `value`.

    Raises CodecError (a ValueError) if a key is missing or a value is not allowed.
    """
    return codec.from_plain(dict(value), PlanContext)
