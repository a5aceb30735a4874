"""Plan of one turn, as the planner decides it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from mnemosyne.core import codec
from mnemosyne.world.activation.values import TimedEffects

MAX_KEYWORDS = 12
"""Search words of one plan."""

KEYWORD_CHARS = 60
"""The most characters of a search word that the rules guess or a model gives."""


class Triage(StrEnum):
    """Whether the input only changes numbers or is narrated."""

    NUMERICAL = "numerical"
    NARRATIVE = "narrative"


class Temporal(StrEnum):
    """The time that the input refers to."""

    NOW = "now"
    PAST = "past"
    FUTURE = "future"


class OverviewScope(StrEnum):
    """The extent of an overview: all that happened, quests, persons, places, other things that have a name, or what the player
    carries and has left to do. What the input names is told of, and else everything of that kind.
    """

    ALL = "all"
    QUEST = "quest"
    PERSON = "person"
    PLACE = "place"
    THING = "thing"
    OWN = "own"


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchIntent:
    """Search of Stream B: its words, weights and time.

    `domain_weight` has the keys narrative, lore, event; each weight is 0..1, and they need not add up to 1. `overview`: the input
    asks for many memories at once, spread over time (None: for those that answer it).
    """

    enabled: bool
    focus_keywords: tuple[str, ...] = ()
    temporal_context: Temporal = Temporal.NOW
    domain_weight: Mapping[str, float] = field(
        default_factory=lambda: MappingProxyType({"narrative": 0.5, "lore": 0.5, "event": 0.5})
    )
    overview: OverviewScope | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldInfoState:
    """What the rules of world info carry from a turn to the next one of its branch: how many messages the chat had, the turn's
    input among them, and the effects that last.
    """

    chat_length: int = 0
    effects: TimedEffects = field(default_factory=TimedEffects)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanContext:
    """The decisions of the planner for one turn; stored with the turn.

    `tier` 0 = rules only, 1 = a small model helped. `confidence` 0..1. `entities` are ids of world entities found in
    the input, in order of appearance. `action_id` names the numerical action, if any. `reasons` are short sentences
    that say why. `tier1` says what came of the small model: empty when it was not needed, `no_model`, `planned`, or why
    it failed. `switches` counts the turns in a row that moved the focus while the topic stayed; `flags` name what a
    person should check. `injections` are the ids of the scheduled texts of this turn; `injected_at` is the depth at
    which each was last due on this path. `world_info` is what activation by the rules of SillyTavern left (None: there was
    none on this path).
    """

    triage: Triage
    active_quest_id: str | None
    current_goal: str
    template_id: str
    search_intent: SearchIntent
    entities: tuple[str, ...] = ()
    action_id: str | None = None
    tier: int = 0
    confidence: float = 1.0
    reasons: tuple[str, ...] = ()
    tier1: str = ""
    switches: int = 0
    flags: tuple[str, ...] = ()
    injections: tuple[str, ...] = ()
    injected_at: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    world_info: WorldInfoState | None = None


def plan_to_json(plan: PlanContext) -> dict[str, Any]:
    """Return the plan as a JSON value with snake_case keys; `plan_from_json` reads it."""
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
    """Return the plan that `plan_to_json` wrote.

    Raises CodecError, a ValueError, for a missing key and for a value that is not allowed.
    """
    return codec.from_plain(dict(value), PlanContext)
