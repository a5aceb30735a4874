"""A whole engine in one call (seed 002 section 19.3), on a store of the host's choice and an index in memory.

For hosts that bring their own store and model, for tests and for experiments. `jacquard.wiring.runtime` opens the
usual engine with its folder, worlds and models.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from jacquard.adapters.observe.bus import InMemoryEventBus
from jacquard.adapters.observe.spans import NO_TRACING, Tracing
from jacquard.config.sections import ObservabilityConfig, RuntimeConfig
from jacquard.core.errors import ConfigError
from jacquard.core.protocols import LlmAdapter, Pruner, Summarizer
from jacquard.memory.summarize.model import ModelSummarizer
from jacquard.pipeline.curation.selectors.heuristic import HeuristicSelector
from jacquard.pipeline.skeleton.automation import AutomationStream
from jacquard.pipeline.worlds import bare_world
from jacquard.templating import shipped_templates
from jacquard.turns.engine import ContextEngine
from jacquard.turns.parts import EngineParts
from jacquard.wiring.ingest import open_redactor, options_of, ttl_of
from jacquard.wiring.models import build_selector
from jacquard.wiring.named_parts import open_planner, open_token_estimator
from jacquard.wiring.observability import build_curation_stream, open_observability, trace_model
from jacquard.wiring.planner_tiers import open_refiner
from mnemosyne.evidence import IngestRules, RedactingIngestor
from mnemosyne.protocols import (
    Clock,
    Embedder,
    EventBus,
    EvidenceIngestor,
    Index,
    Redactor,
    SessionLocks,
    Store,
    TokenEstimator,
)
from mnemosyne.retrieval.embedding.prefetching import PrefetchingEmbedder
from mnemosyne.retrieval.engines.memory import MemoryIndex
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.schema.world import WorldPack

_SHIPPED = shipped_templates()
"""Looked for once, at import: to look for files is no work for an event loop."""


class _SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


def create_context_engine(
    store: Store,
    token_estimator: TokenEstimator | None = None,
    llm_adapter: LlmAdapter | None = None,
    config: RuntimeConfig | None = None,
    *,
    world: WorldPack | None = None,
    worlds: Mapping[str, WorldPack] | None = None,
    embedder: Embedder | None = None,
    event_bus: EventBus | None = None,
    clock: Clock | None = None,
    redactor: Redactor | None = None,
    ingestor: EvidenceIngestor | None = None,
    summarizer: Summarizer | None = None,
    index: Index | None = None,
    locks: SessionLocks | None = None,
    tracing: Tracing = NO_TRACING,
    pruner: Pruner | Mapping[str, Pruner] | None = None,
    consolidator: LlmAdapter | None = None,
) -> ContextEngine:
    """Return an engine with the shipped parts; open it with `async with`. The store stays the host's to close.

    `llm_adapter` selects, plans where the rules are not sure, sums up and makes memory; without one rules do the first three.
    `pruner`: one for all, or pruners by the name that `prune.policy` says. A session that is not there yet starts from `world`
    (None: a bare one) with its first turn; `worlds` are those of sessions that are. A part that is given counts over the setting
    that names one; where a setting names a token estimator or a plugin, files are read, so call it off the event loop then.
    ConfigError for what it cannot serve.
    """
    settings = config or RuntimeConfig()
    _refuse(settings, has_model=llm_adapter is not None, has_ingestor=ingestor is not None)
    estimator, timed = token_estimator or open_token_estimator(settings), clock or _SystemClock()
    ahead = None if embedder is None else PrefetchingEmbedder(embedder)
    tracing = _tracing(settings, tracing)
    if llm_adapter is not None:
        llm_adapter = trace_model(llm_adapter, tracing, capture_content=settings.observability.capture_content)
        seconds = settings.summary.background_seconds
        summarizer = summarizer or ModelSummarizer(llm_adapter, estimator.estimate, seconds)
    cleaner, ttl = redactor or open_redactor(settings.redaction), ttl_of(settings.evidence)
    retriever = HybridRetriever(store, index or MemoryIndex(), ahead, estimator)
    opening = world or bare_world("bare")
    parts = EngineParts(
        store=store,
        planner=open_planner(settings.planner),
        automation=AutomationStream(estimator, _SHIPPED),
        curation=build_curation_stream(
            retriever, build_selector(settings.selector, llm_adapter), HeuristicSelector(), tracing
        ),
        pruner=pruner,
        estimator=estimator,
        clock=timed,
        roots=(_SHIPPED,),
        worlds={opening.world_id: opening, **(worlds or {})},
        refiner=open_refiner(settings.planner, llm_adapter, estimator.estimate),
        events=event_bus or InMemoryEventBus(),
        redactor=cleaner,
        ingestor=ingestor or RedactingIngestor(store, cleaner, timed, rules=IngestRules(ttl_seconds=ttl)),
        ingest_options=options_of(settings),
        summarizer=summarizer,
        consolidator=consolidator or llm_adapter,
        locks=locks,
        tracing=tracing,
        ahead=ahead,
        opening=opening,
    )
    return ContextEngine(parts, settings)


def _tracing(settings: RuntimeConfig, given: Tracing) -> Tracing:
    if not settings.observability.tracing or given is not NO_TRACING:
        return given
    return open_observability(ObservabilityConfig(tracing=True)).tracing


def _refuse(settings: RuntimeConfig, *, has_model: bool, has_ingestor: bool) -> None:
    """Raise ConfigError for what only `open_runtime` does, so that no setting is passed over in silence."""
    named = [
        f"{name}.model"
        for name in ("selector", "planner", "summary", "consolidation")
        if getattr(settings, name).model is not None
    ]
    if named and not has_model:
        raise ConfigError(f"{named[0]} names a model, but create_context_engine opens none: give it as llm_adapter.")
    if settings.selector.reranker is not None:
        raise ConfigError("selector.reranker is opened by open_runtime; create_context_engine selects by llm_adapter.")
    if settings.observability.metrics:
        raise ConfigError(
            "observability.metrics is served by open_runtime; here make a PrometheusMetrics and let your event_bus call it: "
            "bus.on_all(metrics.count)."
        )
    if settings.redaction.mode == "dual_store" and not has_ingestor:
        raise ConfigError("redaction.mode dual_store needs a place for originals: give an ingestor that has a vault.")
