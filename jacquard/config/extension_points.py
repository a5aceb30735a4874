"""Parts that settings name: planners, selectors and pruners, and the table of all extension points.

Stores, embedders, token estimators, redactors and importers are mnemosyne's, in `mnemosyne.plugins`. A setting that takes a
name also takes a plugin's, as `NAME` or `NAME:ARGUMENT`.
"""

from __future__ import annotations

from typing import Any, Protocol

from jacquard.core.errors import ConfigError
from jacquard.core.protocols import LlmAdapter, Planner, Pruner, Selector
from mnemosyne.core.errors import PluginError
from mnemosyne.plugins import (
    EMBEDDERS,
    IMPORTERS,
    REDACTORS,
    STORES,
    TOKEN_ESTIMATORS,
    ExtensionPoint,
    open_plugin,
    split_name,
)


class PlannerFactory(Protocol):
    """Makes a planner; `argument` is the text after `NAME:`, or ''."""

    def __call__(self, argument: str) -> Planner:
        """Return the planner."""
        ...


class SelectorFactory(Protocol):
    """Makes a selector; `argument` is the text after `NAME:`, or ''.

    `model` is the small model of `selector.model` (None: none is named); the engine opens and closes it, and puts a circuit
    breaker before the selector.
    """

    def __call__(self, argument: str, *, model: LlmAdapter | None) -> Selector:
        """Return the selector."""
        ...


class PrunerFactory(Protocol):
    """Makes a pruner; `argument` is the text after `NAME:`, or ''. One pruner serves all turns."""

    def __call__(self, argument: str) -> Pruner:
        """Return the pruner."""
        ...


PLANNERS = ExtensionPoint(
    group="jacquard.planners",
    setting="planner.name",
    kind="planner",
    part=Planner,
    factory=PlannerFactory,
    built_in=("rules",),
)
SELECTORS = ExtensionPoint(
    group="jacquard.selectors",
    setting="selector.name",
    kind="selector",
    part=Selector,
    factory=SelectorFactory,
    built_in=("flash", "heuristic", "rerank"),
)
PRUNERS = ExtensionPoint(
    group="jacquard.pruners",
    setting="prune.policy",
    kind="pruner",
    part=Pruner,
    factory=PrunerFactory,
    built_in=("degrade_to_summary", "greedy_priority", "group_aware"),
)
EXTENSION_POINTS = (
    STORES,
    EMBEDDERS,
    PLANNERS,
    SELECTORS,
    PRUNERS,
    TOKEN_ESTIMATORS,
    REDACTORS,
    IMPORTERS,
)
"""All parts that are found by name, in the order of docs/plugins.md."""


def open_named_plugin(point: ExtensionPoint, written: str, **options: Any) -> Any:
    """Return the part of the plugin that a setting names as `NAME` or `NAME:ARGUMENT`.

    Raises ConfigError for the name of a built-in part with an argument, and with the message of `mnemosyne.plugins.open_plugin`
    if the plugin cannot be opened.
    """
    name, argument = split_name(written)
    if name in point.built_in:
        raise ConfigError(f"{point.setting}: {name} takes no argument, but is written {written!r}.")
    try:
        return open_plugin(point, name, argument, **options)
    except PluginError as error:
        raise ConfigError(str(error)) from error
