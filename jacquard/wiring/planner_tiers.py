"""The tiers of the planner above the rules, in one list: each opens its refiner from the settings, or is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from jacquard.config.sections import PlannerConfig
from jacquard.core.protocols import LlmAdapter, PlanRefiner
from jacquard.pipeline.planning.model import ModelPlanner
from jacquard.pipeline.planning.refiner_chain import RefinerChain

Count = Callable[[str], int]
OpenTier = Callable[[PlannerConfig, LlmAdapter | None, Count], PlanRefiner | None]


def _open_model_tier(settings: PlannerConfig, model: LlmAdapter | None, count: Count) -> PlanRefiner | None:
    if model is None:
        return None
    return ModelPlanner(model, settings.max_tokens, settings.timeout_ms / 1000, count)


PLANNER_TIERS: Mapping[int, OpenTier] = MappingProxyType({1: _open_model_tier})
"""By number, in the order in which they are asked where the rules are not sure. A refiner puts its number into its plans."""


def open_refiner(settings: PlannerConfig, model: LlmAdapter | None, count: Count) -> PlanRefiner | None:
    """Return the tiers above the rules as one refiner; None where the settings leave none, so that only the rules plan."""
    opened = [open_tier(settings, model, count) for open_tier in PLANNER_TIERS.values()]
    refiners = [refiner for refiner in opened if refiner is not None]
    if len(refiners) > 1:
        return RefinerChain(refiners)
    return refiners[0] if refiners else None
