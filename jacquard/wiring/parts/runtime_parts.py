"""Opens all parts of a runtime, and joins them into the parts of its engine.

This module reads files and imports the packages that settings name, so call its functions off the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from jacquard.config.sections import RuntimeConfig
from jacquard.core.protocols import LlmAdapter, PairScorer
from jacquard.pipeline.curation.selectors.heuristic import HeuristicSelector
from jacquard.pipeline.skeleton.automation import AutomationStream
from jacquard.pipeline.worlds import build_bare_world
from jacquard.templating import find_shipped_templates
from jacquard.templating.profiles import AUTO
from jacquard.turns.parts import EngineParts, HostParts
from jacquard.wiring.parts.embedder import (
    EmbeddingWorkers,
    can_search,
    open_embedder,
    open_on_workers,
    reopen_embedder,
)
from jacquard.wiring.parts.ingest import IngestServices, open_ingest_services
from jacquard.wiring.parts.models import open_model, open_refiner, open_selector, open_writers
from jacquard.wiring.parts.named_parts import open_person_finder, open_planner, open_snapshots, open_token_estimator
from jacquard.wiring.parts.observability import (
    Observability,
    build_curation_stream,
    open_locks,
    open_observability,
    trace_model,
)
from mnemosyne.host_parts import SystemClock
from mnemosyne.protocols import SharedIndexStore, Store, TokenEstimator
from mnemosyne.retrieval.embedding.prefetching import PrefetchingEmbedder
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.schema.world import WorldPack
from mnemosyne.stores.locate import StoreLocation
from mnemosyne.values import dataclass

SHARED_OPEN_SCOPES = 4_096
"""Maximum number of scopes (sessions or worlds) in memory if hosts share an index in the store.

The number is so high that in practice the number of rows limits the memory. Small sessions should stay in memory,
because they are slower to read from the store than from a folder.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeRequest:
    """Inputs for opening a runtime: an open store with its location, the folder of its index, and the arguments of
    `open_runtime`.
    """

    store: Store
    location: StoreLocation
    index_folder: Path
    tenant: str
    settings: RuntimeConfig
    embedder: str
    language: str | None
    """Locale of the texts, by which an embedder named `auto` is chosen."""
    world: WorldPack | None
    is_bare: bool
    host: HostParts
    workers: EmbeddingWorkers | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeParts:
    """All parts of a runtime, opened but not yet used. `close` releases the parts that hold resources."""

    engine: EngineParts
    recall: RecallParts
    intake: IngestServices
    watchers: Observability
    models: Sequence[LlmAdapter | PairScorer]

    async def close(self) -> None:
        """Release the locks, models, workers, index and store."""
        if self.engine.locks is not None:
            await self.engine.locks.close()
        for model in self.models:
            await model.close()
        if self.recall.end_workers is not None:
            await self.recall.end_workers()
        await self.recall.index.close()
        await self.engine.store.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallParts:
    """Parts that find memories.

    `embedder` is None if the search compares only words. `end_workers` ends the processes that embed documents (None:
    there are none).
    """

    index: TieredIndex
    retriever: HybridRetriever
    embedder: PrefetchingEmbedder | None
    end_workers: Callable[[], Awaitable[None]] | None


def open_runtime_parts(request: RuntimeRequest) -> RuntimeParts:
    """Open and return all parts of a runtime. The function blocks, so call it off the event loop."""
    settings, host = request.settings, request.host
    estimator = open_token_estimator(settings)
    recall = _open_recall_parts(request, estimator)
    intake = open_ingest_services(request.store, request.location, request.index_folder, settings, SystemClock(), host)
    watchers = open_observability(settings.observability)
    parts, models = _build_engine_parts(request, recall, intake, watchers, estimator)
    return RuntimeParts(engine=host.put_into(parts), recall=recall, intake=intake, watchers=watchers, models=models)


def _open_recall_parts(request: RuntimeRequest, estimator: TokenEstimator) -> RecallParts:
    named, end_workers = open_embedder(request.embedder, language=request.language), None
    if named is not None and request.workers is not None:
        named, end_workers = open_on_workers(named, request.embedder, request.language, request.workers)
    embedder = None if named is None else PrefetchingEmbedder(named)
    shared = request.store if isinstance(request.store, SharedIndexStore) else None
    snapshots = open_snapshots(request.store, request.settings.snapshots, partial(can_search, embedder))
    if shared is None:
        index = TieredIndex(request.index_folder, snapshots=snapshots)
    else:
        index = TieredIndex(
            request.index_folder,
            open_scopes=SHARED_OPEN_SCOPES,
            segments=shared.segments,
            has_vectors=named is not None,
            snapshots=snapshots,
        )
    retriever = HybridRetriever(
        request.store,
        index,
        embedder,
        estimator,
        inline_vectors=0,
        open_former=reopen_embedder,
        vectors=None if shared is None else shared.vectors,
        persons=open_person_finder(),
    )
    return RecallParts(index=index, retriever=retriever, embedder=embedder, end_workers=end_workers)


def _build_engine_parts(
    request: RuntimeRequest,
    recall: RecallParts,
    intake: IngestServices,
    watchers: Observability,
    estimator: TokenEstimator,
) -> tuple[EngineParts, Sequence[LlmAdapter | PairScorer]]:
    """Return the engine's parts, and the models among them, which the caller must warm and close."""
    settings, world, shipped = request.settings, request.world, find_shipped_templates()
    wrap = partial(trace_model, tracing=watchers.tracing, capture_content=settings.observability.capture_content)
    selector, selecting = open_selector(settings.selector, wrap)
    planning = None if settings.planner.model is None else open_model(settings.planner, wrap)
    summarizer, consolidator, writers = open_writers(settings, estimator, wrap)
    starts_bare = world is None and (request.is_bare or settings.profile != AUTO)
    parts = EngineParts(
        store=request.store,
        planner=open_planner(settings.planner),
        automation=AutomationStream(estimator, shipped),
        curation=build_curation_stream(recall.retriever, selector, HeuristicSelector(), watchers.tracing),
        # The settings of each turn name its pruner.
        pruner=None,
        estimator=estimator,
        clock=SystemClock(),
        roots=(shipped,),
        worlds={} if world is None else {world.world_id: world},
        summarizer=summarizer,
        consolidator=consolidator,
        redactor=intake.redactor,
        refiner=open_refiner(settings.planner, planning, estimator.estimate),
        events=watchers.events,
        tracing=watchers.tracing,
        ahead=recall.embedder,
        feeder=recall.retriever,
        locks=open_locks(request.location, request.index_folder, request.tenant, settings),
        ingestor=intake.ingestor,
        ingest_options=intake.options,
        opening=build_bare_world("bare") if starts_bare else None,
    )
    return parts, (*selecting, *(() if planning is None else (planning,)), *writers)
