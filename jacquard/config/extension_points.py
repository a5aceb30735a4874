"""Declares which planners, selectors and pruners settings can name, which retrievers evaluations can name, and opens the
parts of plugins.

Stores, embedders, token estimators, redactors and importers are declared in `mnemosyne.plugins`. A setting that takes the
name of a part also takes the name of a plugin, as `NAME` or `NAME:ARGUMENT`.
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
from mnemosyne.protocols import Embedder, EntrySource, Retriever


class PlannerFactory(Protocol):
    """Makes a planner. `argument` is the text after `NAME:` in the setting, or ''."""

    def __call__(self, argument: str) -> Planner:
        """Return the planner."""
        ...


class SelectorFactory(Protocol):
    """Makes a selector. `argument` is the text after `NAME:` in the setting, or ''.

    `model` is the small model that the setting `selector.model` names (None: it names none). The engine opens and
    closes this model. After repeated failures the engine does not call the selector for a while (circuit breaker).
    """

    def __call__(self, argument: str, *, model: LlmAdapter | None) -> Selector:
        """Return the selector."""
        ...


class PrunerFactory(Protocol):
    """Makes a pruner. `argument` is the text after `NAME:` in the setting, or ''. One pruner serves all turns."""

    def __call__(self, argument: str) -> Pruner:
        """Return the pruner."""
        ...


class RetrieverFactory(Protocol):
    """Makes a retriever over one session. `argument` is the text after `NAME:`, or ''.

    If the retriever has a method `sync(scope, progress)`, it is called once before the queries.
    """

    def __call__(self, argument: str, *, source: EntrySource, embedder: Embedder | None) -> Retriever:
        """Return the retriever of the entries in `source`."""
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
RETRIEVERS = ExtensionPoint(
    group="jacquard.retrievers",
    setting="--retriever",
    kind="retriever",
    part=Retriever,
    factory=RetrieverFactory,
    built_in=("bm25", "hybrid", "rank-bm25", "rrf", "vector"),
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
    RETRIEVERS,
)
"""All kinds of parts that can be chosen by name, in the order of docs/en/plugins.md."""


def open_named_plugin(point: ExtensionPoint, written: str, **options: Any) -> Any:
    """Return the part of the plugin that `written` names (`NAME` or `NAME:ARGUMENT`). The plugin's factory gets
    `options`.

    Raises ConfigError if `NAME` is a built-in part (built-in parts take no argument), or if the plugin cannot be opened.
    """
    name, argument = split_name(written)
    if name in point.built_in:
        raise ConfigError(f"{point.setting}: {name} takes no argument, but is written {written!r}.")
    try:
        return open_plugin(point, name, argument, **options)
    except PluginError as error:
        raise ConfigError(str(error)) from error
