"""Builds a complete engine in one call, on a store that the host opened and with an index in memory.

This module is for hosts with their own store and model, for tests and for experiments. `jacquard.wiring.runtime` opens
the usual engine with a folder, worlds and models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jacquard.adapters.models.completed_adapter import complete_adapter
from jacquard.adapters.observe.bus import InMemoryEventBus
from jacquard.adapters.observe.spans import NO_TRACING, Tracing
from jacquard.config.sections import ObservabilityConfig, RuntimeConfig
from jacquard.config.settings import config_from_mapping
from jacquard.core.errors import ConfigError
from jacquard.core.protocols import GeneratesText, LlmAdapter, Pruner, Selector, Summarizer
from jacquard.memory.summarize.model import ModelSummarizer
from jacquard.pipeline.curation.selectors.heuristic import HeuristicSelector
from jacquard.pipeline.curation.stream import CurationStream
from jacquard.pipeline.evidence.rendering import EVERYTHING, NO_HINTS
from jacquard.pipeline.skeleton.automation import AutomationStream
from jacquard.pipeline.weaving.assemble import ROLE_MESSAGES, Assembler
from jacquard.pipeline.worlds import build_bare_world
from jacquard.templating import find_shipped_templates
from jacquard.turns.engine import ContextEngine
from jacquard.turns.parts import EngineParts
from jacquard.wiring.parts.ingest import open_redactor, options_of, ttl_of
from jacquard.wiring.parts.models import build_selector, guard_selector, open_refiner
from jacquard.wiring.parts.named_parts import open_planner, open_token_estimator
from jacquard.wiring.parts.observability import build_curation_stream, open_observability, trace_model
from jacquard.wiring.parts.short_forms import (
    check_parts,
    complete_assembler,
    complete_bus,
    complete_clock,
    complete_estimator,
    complete_ingestor,
    complete_resolver,
    complete_store,
    complete_summarizer,
)
from mnemosyne.evidence import IngestRules, RedactingIngestor
from mnemosyne.host_parts import DEFAULT_HASHER, SystemClock, UuidV4Generator
from mnemosyne.protocols import (
    BlockDeriver,
    Clock,
    Embedder,
    EventBus,
    EvidenceIngestor,
    EvidenceResolver,
    Fetch,
    Hasher,
    IdGenerator,
    Index,
    Redactor,
    Renderer,
    SessionLocks,
    Store,
    TextSelector,
    TokenEstimator,
)
from mnemosyne.retrieval.embedding.prefetching import PrefetchingEmbedder
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.schema.evidence import DeriveOptions, RenderHints
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.world import WorldPack

_SHIPPED = find_shipped_templates()
"""Folder that is looked up once, at import, because an event loop should not wait for the disk."""


class DefaultContextEngine(ContextEngine):
    """Engine with the shipped parts. The host closes the store. A part passed here replaces the part that a setting
    names.

    Args:
        llm_adapter: model that selects memories, plans turns on which the rules are not confident, summarizes, and
            extracts
            memories. None: rules select, plan and summarize. The model needs only the method `generate`.
        policies: a `RuntimeConfig`, or a mapping of settings as in a settings file.
        selector: chooses the memories in place of the selector that the settings name. If it fails, the heuristic chooses.
        pruner: one pruner for all turns, or several by the name in the setting `prune.policy`.
        world: initial world of a session that does not exist yet (None: an empty world).
        worlds: packs (settings with lore and characters) of existing sessions, by world id.
        id_generator: makes the ids of new evidence (stored source texts).
        hasher: hashes texts, everywhere in the engine.
        ref_selector: finds the part of a text that a ref (pointer to evidence) selects, everywhere in the engine.
        deriver, renderer, assembler, resolver: see their Protocols.
        fetchers: by scheme (`https`), functions that fetch evidence texts stored in other places.

    A part may also have the shorter form of the SDK's design, such as a store of documents or a clock with `now_iso`: it is
    completed, and a warning names the better form (`jacquard.wiring.parts.short_forms`).

    If a setting names a token estimator or a plugin, the constructor reads files. In this case call the constructor off
    the event loop.

    Raises ConfigError if a setting needs `open_runtime`, or a part that a setting names cannot be opened.
    """

    def __init__(
        self,
        store: Store,
        token_estimator: TokenEstimator | None = None,
        llm_adapter: LlmAdapter | GeneratesText | None = None,
        *,
        policies: RuntimeConfig | Mapping[str, Any] | None = None,
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
        selector: Selector | None = None,
        consolidator: LlmAdapter | None = None,
        id_generator: IdGenerator | None = None,
        hasher: Hasher | None = None,
        deriver: BlockDeriver | None = None,
        renderer: Renderer | None = None,
        assembler: Assembler | None = None,
        resolver: EvidenceResolver | None = None,
        fetchers: Mapping[str, Fetch] | None = None,
        ref_selector: TextSelector | None = None,
        derive_options: DeriveOptions | None = None,
        render_hints: RenderHints | None = None,
    ) -> None:
        settings = _settings_of(policies)
        check_parts(
            store=store,
            token_estimator=token_estimator,
            clock=clock,
            event_bus=event_bus,
            redactor=redactor,
            ingestor=ingestor,
            summarizer=summarizer,
            id_generator=id_generator,
            hasher=hasher,
            deriver=deriver,
            renderer=renderer,
            resolver=resolver,
            assembler=assembler,
        )
        store = complete_store(store)
        model = None if llm_adapter is None else complete_adapter(llm_adapter)
        _refuse(settings, has_model=model is not None, has_ingestor=ingestor is not None)
        timed = SystemClock() if clock is None else complete_clock(clock)
        estimator = open_token_estimator(settings) if token_estimator is None else complete_estimator(token_estimator)
        ahead = None if embedder is None else PrefetchingEmbedder(embedder)
        tracing = _tracing(settings, tracing)
        model = _trace(model, settings, tracing)
        cleaner = redactor or open_redactor(settings.redaction)
        retriever = HybridRetriever(store, index or MemoryIndex(), ahead, estimator, inline_vectors=0)
        opening = world or build_bare_world("bare")
        parts = EngineParts(
            store=store,
            planner=open_planner(settings.planner),
            automation=AutomationStream(estimator, _SHIPPED),
            curation=_build_curation(retriever, model, settings, tracing, selector),
            pruner=pruner,
            estimator=estimator,
            clock=timed,
            roots=(_SHIPPED,),
            worlds={opening.world_id: opening, **(worlds or {})},
            refiner=open_refiner(settings.planner, model, estimator.estimate),
            events=InMemoryEventBus() if event_bus is None else complete_bus(event_bus),
            redactor=cleaner,
            ingestor=_build_ingestor(store, cleaner, timed, settings, id_generator, hasher, ref_selector)
            if ingestor is None
            else complete_ingestor(ingestor, store),
            ingest_options=options_of(settings),
            summarizer=_build_summarizer(model, estimator, settings)
            if summarizer is None
            else complete_summarizer(summarizer, settings.summary),
            consolidator=consolidator or model,
            locks=locks,
            tracing=tracing,
            ahead=ahead,
            feeder=retriever,
            opening=opening,
            deriver=deriver,
            resolver=None if resolver is None else complete_resolver(resolver),
            renderer=renderer,
            derive_options=derive_options or EVERYTHING,
            render_hints=render_hints or NO_HINTS,
            fetchers=fetchers or EMPTY,
            ref_selector=ref_selector,
            hasher=hasher or DEFAULT_HASHER,
            assembler=ROLE_MESSAGES if assembler is None else complete_assembler(assembler),
        )
        super().__init__(parts, settings)


def create_context_engine(
    store: Store,
    token_estimator: TokenEstimator | None = None,
    llm_adapter: LlmAdapter | GeneratesText | None = None,
    config: RuntimeConfig | None = None,
    **parts: Any,
) -> DefaultContextEngine:
    """Return an engine with the shipped parts. `parts` are further arguments of `DefaultContextEngine`.

    Open the engine with `async with`, or await its `close` at the end. Raises ConfigError under the same conditions as
    `DefaultContextEngine`. `token_estimator` counts tokens (None: the estimator that the settings name), `llm_adapter`
    is the small model (None: no model), and `config` contains the settings (None: the defaults).
    """
    return DefaultContextEngine(store, token_estimator, llm_adapter, policies=config, **parts)


def _settings_of(policies: RuntimeConfig | Mapping[str, Any] | None) -> RuntimeConfig:
    if policies is None or isinstance(policies, RuntimeConfig):
        return policies or RuntimeConfig()
    if not isinstance(policies, Mapping):
        raise ConfigError(f"policies is {type(policies).__name__}; give a RuntimeConfig, or a mapping of settings.")
    return config_from_mapping(policies)


def _trace(model: LlmAdapter | None, settings: RuntimeConfig, tracing: Tracing) -> LlmAdapter | None:
    if model is None:
        return None
    return trace_model(model, tracing, capture_content=settings.observability.capture_content)


def _build_curation(
    retriever: HybridRetriever,
    model: LlmAdapter | None,
    settings: RuntimeConfig,
    tracing: Tracing,
    own: Selector | None,
) -> CurationStream:
    selector = build_selector(settings.selector, model) if own is None else guard_selector(own, settings.selector)
    return build_curation_stream(retriever, selector, HeuristicSelector(), tracing)


def _build_summarizer(
    model: LlmAdapter | None, estimator: TokenEstimator, settings: RuntimeConfig
) -> ModelSummarizer | None:
    if model is None:
        return None
    return ModelSummarizer(model, estimator.estimate, settings.summary.background_seconds)


def _build_ingestor(
    store: Store,
    redactor: Redactor,
    clock: Clock,
    settings: RuntimeConfig,
    ids: IdGenerator | None,
    hasher: Hasher | None,
    ref_selector: TextSelector | None,
) -> RedactingIngestor:
    rules = IngestRules(ttl_seconds=ttl_of(settings.evidence))
    return RedactingIngestor(
        store,
        redactor,
        clock,
        settings=options_of(settings),
        rules=rules,
        new_id=(ids or UuidV4Generator()).generate,
        hash_text=(hasher or DEFAULT_HASHER).digest,
        text_selector=ref_selector,
    )


def _tracing(settings: RuntimeConfig, given: Tracing) -> Tracing:
    if not settings.observability.tracing or given is not NO_TRACING:
        return given
    return open_observability(ObservabilityConfig(tracing=True)).tracing


def _refuse(settings: RuntimeConfig, *, has_model: bool, has_ingestor: bool) -> None:
    """Raise ConfigError for settings that only `open_runtime` serves, so that no setting is silently ignored."""
    named = [
        f"{name}.model"
        for name in ("selector", "planner", "summary", "consolidation")
        if getattr(settings, name).model is not None
    ]
    if named and not has_model:
        raise ConfigError(f"{named[0]} names a model, but create_context_engine opens none: give it as llm_adapter.")
    if settings.snapshots.address:
        raise ConfigError("snapshots.address is served by open_runtime; here give an index with snapshots of its own.")
    if settings.selector.reranker is not None:
        raise ConfigError("selector.reranker is opened by open_runtime; create_context_engine selects by llm_adapter.")
    if settings.observability.metrics:
        raise ConfigError(
            "observability.metrics is served by open_runtime; here make a PrometheusMetrics and let your event_bus call it: "
            "bus.on_all(metrics.count)."
        )
    if settings.redaction.mode == "dual_store" and not has_ingestor:
        raise ConfigError("redaction.mode dual_store needs a place for originals: give an ingestor that has a vault.")
