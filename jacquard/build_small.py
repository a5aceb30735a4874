"""A whole engine in one call (seed 002 section 19.3), on a store of the host's choice and an index in memory.

For hosts that bring their own store and model, for tests and for trying things out. `jacquard.build` opens the usual engine
with its folder, worlds and models.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from jacquard.breaker import BreakingSelector, CircuitBreaker
from jacquard.build_watch import open_refiner, watched_model, watched_stream
from jacquard.config import RuntimeConfig
from jacquard.draft import EngineParts
from jacquard.engine import ContextEngine
from jacquard.observe.bus import InMemoryEventBus
from jacquard.observe.spans import NO_TRACING, Tracing
from jacquard.planners.rules import RulePlanner
from jacquard.protocols import LlmAdapter, Summarizer
from jacquard.selectors.flash import FlashSelector
from jacquard.selectors.heuristic import HeuristicSelector
from jacquard.streams.automation import AutomationStream
from jacquard.templating import shipped_templates
from jacquard.worlds import bare_world
from mnemosyne.index.embed_ahead import AheadEmbedder
from mnemosyne.index.hybrid import HybridRetriever
from mnemosyne.index.memory import MemoryIndex
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
from mnemosyne.schema.world import WorldPack
from mnemosyne.tokens import CalibratedEstimator

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
) -> ContextEngine:
    """Return an engine with the shipped parts; open it with `async with`. The store stays the host's to close.

    `llm_adapter` selects memories and plans where the rules are not sure; without one rules do both. A session that is not
    there yet starts from `world` (None: a bare one) with its first turn. `worlds`: the packs of sessions that are there.
    """
    settings = config or RuntimeConfig()
    estimator = token_estimator or CalibratedEstimator()
    ahead = None if embedder is None else AheadEmbedder(embedder)
    if llm_adapter is not None:
        llm_adapter = watched_model(llm_adapter, tracing, capture_content=settings.observability.capture_content)
    selector = None if llm_adapter is None else BreakingSelector(FlashSelector(llm_adapter), CircuitBreaker())
    retriever = HybridRetriever(store, index or MemoryIndex(), ahead, estimator)
    refiner = open_refiner(settings.planner, llm_adapter, estimator.estimate)
    opening = world or bare_world("bare")
    parts = EngineParts(
        store=store,
        planner=RulePlanner(),
        automation=AutomationStream(estimator, _SHIPPED),
        curation=watched_stream(retriever, selector, HeuristicSelector(), tracing),
        pruner=None,
        estimator=estimator,
        clock=clock or _SystemClock(),
        roots=(_SHIPPED,),
        worlds={opening.world_id: opening, **(worlds or {})},
        refiner=refiner,
        events=event_bus or InMemoryEventBus(),
        redactor=redactor,
        ingestor=ingestor,
        summarizer=summarizer,
        locks=locks,
        tracing=tracing,
        ahead=ahead,
        opening=opening,
    )
    return ContextEngine(parts, settings)
