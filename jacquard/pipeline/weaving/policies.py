"""Chooses pruner, prune rules and layout of a turn from its configuration.

A pruner decides which blocks of a prompt are kept, shortened or dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from types import MappingProxyType

from jacquard.config.extension_points import PRUNERS, open_named_plugin
from jacquard.config.sections import RuntimeConfig
from jacquard.core.blocks import Sensitivity, SkeinTemplate
from jacquard.core.errors import ConfigError
from jacquard.core.protocols import NO_RULES, Pruner, PruneRules
from jacquard.pipeline.turn import Turn
from jacquard.pipeline.weaving.pruners.degrade import DegradeToSummaryPruner
from jacquard.pipeline.weaving.pruners.greedy import GreedyPriorityPruner
from jacquard.pipeline.weaving.pruners.group_aware import GroupAwarePruner
from jacquard.templating.files import TemplateRoot
from jacquard.templating.layouts import load_layout
from jacquard.templating.profiles import AUTO
from mnemosyne.plugins import plugin_names, split_name, unknown_name
from mnemosyne.schema.evidence import Priority

SHIPPED_PRUNERS: Mapping[str, Pruner] = MappingProxyType(
    {
        "greedy_priority": GreedyPriorityPruner(),
        "group_aware": GroupAwarePruner(),
        "degrade_to_summary": DegradeToSummaryPruner(),
    }
)
"""The built-in pruners; hosts and plugins can add others."""


def choose_pruner(config: RuntimeConfig, own: Pruner | Mapping[str, Pruner] | None = None) -> Pruner:
    """Return the pruner that the configuration names.

    `own` contains pruners of the host by name, or is a single pruner that is always used. If the name is neither in
    `own` nor a built-in pruner, it is searched among the plugins. Raises ConfigError if the name is unknown or the
    plugin cannot be used.
    """
    if own is not None and not isinstance(own, Mapping):
        return own
    known = {**SHIPPED_PRUNERS, **(own or {})}
    policy = config.prune.policy
    if policy in known:
        return known[policy]
    try:
        return _open_pruner(policy)
    except ConfigError:
        if split_name(policy)[0] in plugin_names(PRUNERS):
            raise
        raise ConfigError(str(unknown_name(PRUNERS, policy, tuple(known)))) from None


@cache
def _open_pruner(policy: str) -> Pruner:
    """Return the pruner of a plugin, made once for all turns."""
    pruner: Pruner = open_named_plugin(PRUNERS, policy)
    return pruner


def rules_of(config: RuntimeConfig, now: datetime) -> PruneRules:
    """Return the prune rules of a configuration. `now` is the time at which ages are computed."""
    settings = config.prune
    return replace(
        NO_RULES,
        must_keep=frozenset({Priority.MUST, *map(Priority, settings.must_keep_priorities)}),
        ttl_seconds={Priority(name): seconds for name, seconds in settings.ttl_seconds.items()},
        now=now,
        max_sensitivity=Sensitivity(settings.max_sensitivity),
        mask=settings.mask,
        shorten_to=settings.shorten_to,
        shorten_least_tokens=settings.shorten_least_tokens,
    )


def tier_tokens_of(config: RuntimeConfig) -> dict[Priority, int]:
    """Return priority -> maximum tokens of its blocks, for each priority that the configuration limits."""
    return {Priority(name): tokens for name, tokens in config.budget.tier_tokens.items()}


def load_turn_layout(turn: Turn, roots: Sequence[TemplateRoot], layout_id: str | None = None) -> SkeinTemplate:
    """Return the layout of a turn, or the layout `layout_id` if it is given. The function reads files in the folders
    `roots`, so call it off the event loop.

    Raises LayoutError if the layout is missing or not valid.
    """
    named = layout_id or turn.config.layout
    layout = load_layout(turn.profile.layout if named == AUTO else named, roots)
    return replace(layout, boundary=turn.boundary) if turn.boundary else layout
