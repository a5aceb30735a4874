"""The small models of an engine, from a configuration: selector, summarizer, planner.

litellm and the reranker's packages are imported when a setting names them, never before.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from jacquard.config.sections import ConsolidationConfig, PlannerConfig, RuntimeConfig, SelectorConfig, SummaryConfig
from jacquard.core.errors import ConfigError
from jacquard.core.protocols import LlmAdapter, PairScorer, Selector, Summarizer
from jacquard.memory.summarize.model import ModelSummarizer
from jacquard.pipeline.curation.breaker import BreakingSelector, CircuitBreaker
from jacquard.pipeline.curation.selectors.flash import FlashSelector
from jacquard.pipeline.curation.selectors.rerank import RerankSelector
from mnemosyne.protocols import TokenEstimator

Watch = Callable[[LlmAdapter], LlmAdapter]


def _unwatched(model: LlmAdapter) -> LlmAdapter:
    return model


def open_selector(
    settings: SelectorConfig, watch: Watch = _unwatched
) -> tuple[Selector | None, tuple[LlmAdapter | PairScorer, ...]]:
    """Return the selector of a configuration with the models behind it; neither model nor reranker, no selector."""
    breaker = CircuitBreaker(settings.failure_limit, settings.reset_seconds)
    if settings.reranker is not None:
        scorer = open_reranker(settings.reranker)
        return BreakingSelector(RerankSelector(scorer), breaker), (scorer,)
    if settings.model is None:
        return None, ()
    model = open_model(settings, watch)
    return BreakingSelector(FlashSelector(model, max_tokens=settings.max_tokens), breaker), (model,)


def open_reranker(folder: str) -> PairScorer:
    """Return the cross-encoder in a folder, not loaded yet; ConfigError when there is none, or the package is missing."""
    if find_spec("sentence_transformers") is None:
        raise ConfigError("A reranker needs sentence-transformers: pip install 'jacquard-context[local]'.")
    if not (Path(folder) / "config.json").is_file():
        raise ConfigError(
            f"There is no reranker in {folder!r}: name a folder that holds a cross-encoder (its config.json)."
        )
    scorer: PairScorer = import_module("jacquard.adapters.models.cross_encoder").LocalCrossEncoder(folder)
    return scorer


def open_writers(
    settings: RuntimeConfig, estimator: TokenEstimator, watch: Watch = _unwatched
) -> tuple[Summarizer | None, LlmAdapter | None, tuple[LlmAdapter, ...]]:
    """Return the summarizer and the model of consolidation with the models behind them; without a model, neither."""
    summing = None if settings.summary.model is None else open_model(settings.summary, watch)
    own = settings.consolidation.model is not None
    writing = open_model(settings.consolidation, watch) if own else summing
    summarizer = None
    if summing is not None:
        summarizer = ModelSummarizer(summing, estimator.estimate, settings.summary.background_seconds)
    return summarizer, writing, tuple(dict.fromkeys(model for model in (summing, writing) if model is not None))


def open_model(
    settings: SelectorConfig | SummaryConfig | ConsolidationConfig | PlannerConfig, watch: Watch = _unwatched
) -> LlmAdapter:
    """Return the model that a part of the configuration names, watched; ConfigError where litellm is not installed."""
    if find_spec("litellm") is None:
        raise ConfigError(f"The model {settings.model!r} needs litellm: pip install 'jacquard-context[models]'.")
    adapter = import_module("jacquard.adapters.models.litellm_adapter")
    model: LlmAdapter = adapter.LiteLlmModel(settings.model, settings.api_base, settings.api_key)
    return watch(model)
