"""Opens the small models of an engine, and the parts that call them.

These parts are the selector (chooses among recalled memories), the summarizer, and the planner tiers above the rules
(refiners, which improve the plan of a turn). litellm, the packages of the reranker, and plugins are imported only if a
setting names them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from jacquard.config.extension_points import SELECTORS, open_named_plugin
from jacquard.config.sections import ConsolidationConfig, PlannerConfig, RuntimeConfig, SelectorConfig, SummaryConfig
from jacquard.core.errors import ConfigError
from jacquard.core.protocols import LlmAdapter, PairScorer, PlanRefiner, Selector, Summarizer
from jacquard.memory.summarize.model import ModelSummarizer
from jacquard.pipeline.curation.breaker import BreakingSelector, CircuitBreaker
from jacquard.pipeline.curation.selectors.flash import FlashSelector
from jacquard.pipeline.curation.selectors.rerank import RerankSelector
from jacquard.pipeline.planning.model import ModelPlanner
from jacquard.pipeline.planning.refiner_chain import RefinerChain
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.protocols import TokenEstimator

Count = Callable[[str], int]
OpenTier = Callable[[PlannerConfig, LlmAdapter | None, Count], PlanRefiner | None]
ModelWrapper = Callable[[LlmAdapter], LlmAdapter]


def _keep_model(model: LlmAdapter) -> LlmAdapter:
    return model


def open_selector(
    settings: SelectorConfig, wrap: ModelWrapper = _keep_model
) -> tuple[Selector | None, tuple[LlmAdapter | PairScorer, ...]]:
    """Return (selector, models): the selector that `settings` name, and the models that this selector calls.

    `selector` is None if `settings` choose the heuristic, because it needs no model. `wrap` is applied to each language
    model that is opened. Raises ConfigError if a folder, a package or a plugin is missing.
    """
    if settings.name == "heuristic":
        return None, ()
    if settings.reranker is not None:
        scorer = open_reranker(settings.reranker)
        return guard_selector(RerankSelector(scorer), settings), (scorer,)
    model = None if settings.model is None else open_model(settings, wrap)
    return build_selector(settings, model), () if model is None else (model,)


def build_selector(settings: SelectorConfig, model: LlmAdapter | None) -> Selector | None:
    """Return the selector of the plugin that `settings` name, or else the selector that calls `model`.

    Return None if `settings` name the heuristic, or if there is neither a plugin nor a model; the heuristic selects
    then.

    Raises ConfigError if a plugin cannot be used, or if `flash` is named without a model.
    """
    if settings.name == "heuristic":
        return None
    if settings.name == "flash" and model is None:
        raise ConfigError("selector.name is flash, which needs a model: name one with selector.model.")
    if settings.name is not None and settings.name not in SELECTORS.built_in:
        return guard_selector(open_named_plugin(SELECTORS, settings.name, model=model), settings)
    if model is None:
        return None
    flash = FlashSelector(model, max_tokens=settings.max_tokens, rationale=settings.rationale)
    return guard_selector(flash, settings)


def guard_selector(selector: Selector, settings: SelectorConfig) -> Selector:
    """Return `selector` behind a circuit breaker with the limits of `settings`."""
    return BreakingSelector(selector, CircuitBreaker(settings.failure_limit, settings.reset_seconds))


def open_reranker(folder: str) -> PairScorer:
    """Return the cross-encoder (reranker) in `folder`. The reranker loads its model when it is first used.

    Raises ConfigError if the folder contains no cross-encoder, or a package is missing.
    """
    if find_spec("sentence_transformers") is None:
        raise ConfigError(explain_missing_package("A reranker", "sentence-transformers", "embed"))
    if not (Path(folder) / "config.json").is_file():
        raise ConfigError(
            f"There is no reranker in {folder!r}: name a folder that holds a cross-encoder (its config.json)."
        )
    scorer: PairScorer = import_module("jacquard.adapters.models.cross_encoder").LocalCrossEncoder(folder)
    return scorer


def open_writers(
    settings: RuntimeConfig, estimator: TokenEstimator, wrap: ModelWrapper = _keep_model
) -> tuple[Summarizer | None, LlmAdapter | None, tuple[LlmAdapter, ...]]:
    """Return (summarizer, consolidation, models): the summarizer, the model that consolidates memories, and a tuple of
    the models that these two call, each once.

    If `consolidation.model` is not set, the summarizer's model consolidates. `summarizer` is None if `summary.model` is
    not set, and `consolidation` is None if neither setting is set. `estimator` counts tokens for the summarizer. `wrap`
    is applied to each model. Raises ConfigError if litellm is not installed.
    """
    summing = None if settings.summary.model is None else open_model(settings.summary, wrap)
    own = settings.consolidation.model is not None
    writing = open_model(settings.consolidation, wrap) if own else summing
    summarizer = None
    if summing is not None:
        summarizer = ModelSummarizer(summing, estimator.estimate, settings.summary.background_seconds)
    return summarizer, writing, tuple(dict.fromkeys(model for model in (summing, writing) if model is not None))


def open_model(
    settings: SelectorConfig | SummaryConfig | ConsolidationConfig | PlannerConfig, wrap: ModelWrapper = _keep_model
) -> LlmAdapter:
    """Return the model that `settings` (one section of the configuration) name, wrapped by `wrap`.

    Raises ConfigError if litellm is not installed.
    """
    if find_spec("litellm") is None:
        raise ConfigError(explain_missing_package(f"The model {settings.model!r}", "litellm", "models"))
    adapter = import_module("jacquard.adapters.models.litellm_adapter")
    model: LlmAdapter = adapter.LiteLlmModel(settings.model, settings.api_base, settings.api_key)
    return wrap(model)


def _open_model_tier(settings: PlannerConfig, model: LlmAdapter | None, count: Count) -> PlanRefiner | None:
    if model is None:
        return None
    return ModelPlanner(model, settings.max_tokens, settings.timeout_ms / 1000, count)


PLANNER_TIERS: Mapping[int, OpenTier] = MappingProxyType({1: _open_model_tier})
"""Number of a planner tier -> function that opens the tier. Tier 0, the rules, is not included.

The tiers are called in this order if the rules are not confident. Each tier writes its number into the plans that it
makes.
"""


def open_refiner(settings: PlannerConfig, model: LlmAdapter | None, count: Count) -> PlanRefiner | None:
    """Return all planner tiers above the rules as one refiner (it improves a plan). Return None if only the rules plan.

    `model` is the small model that the tiers call (None: no model is set), and `count` returns the tokens of a text.
    """
    opened = [open_tier(settings, model, count) for open_tier in PLANNER_TIERS.values()]
    refiners = [refiner for refiner in opened if refiner is not None]
    if len(refiners) > 1:
        return RefinerChain(refiners)
    return refiners[0] if refiners else None
