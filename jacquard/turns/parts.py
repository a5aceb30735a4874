"""What an engine is made of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from jacquard.adapters.observe.spans import NO_TRACING, Tracing
from jacquard.core.protocols import (
    IndexFeeder,
    LlmAdapter,
    Planner,
    PlanRefiner,
    Pruner,
    QueryPrefetcher,
    Shortener,
    Summarizer,
)
from jacquard.pipeline.curation.stream import CurationStream
from jacquard.pipeline.evidence.rendering import EVERYTHING, NO_HINTS, EvidenceParts
from jacquard.pipeline.skeleton.automation import AutomationStream
from jacquard.pipeline.weaving.assemble import ROLE_MESSAGES, Assembler
from jacquard.turns.host.waiting import WaitingTurns
from mnemosyne.documents.brought import TRUST
from mnemosyne.evidence.blocks.derive import EvidenceBlockDeriver
from mnemosyne.evidence.blocks.render import RefRenderer
from mnemosyne.evidence.blocks.resolve import RefResolver
from mnemosyne.host_parts import DEFAULT_HASHER
from mnemosyne.protocols import (
    BlockDeriver,
    Clock,
    EventBus,
    EvidenceIngestor,
    EvidenceResolver,
    Fetch,
    Hasher,
    IdGenerator,
    Redactor,
    Renderer,
    SessionLocks,
    Store,
    TextSelector,
    TokenEstimator,
)
from mnemosyne.schema.evidence import DeriveOptions, RenderHints
from mnemosyne.schema.ingest import IngestOptions
from mnemosyne.schema.memory import EMPTY, Trust
from mnemosyne.schema.world import WorldPack
from mnemosyne.stores.overlay import OverlayStore


@dataclass(frozen=True, slots=True)
class ModelFailures:
    """Why the last summary and the last consolidation of a session failed, by session, as far as this process made them."""

    summaries: dict[str, str] = field(default_factory=dict)
    memories: dict[str, str] = field(default_factory=dict)

    def copy(self) -> ModelFailures:
        """Return a copy, which changes on its own."""
        return ModelFailures(dict(self.summaries), dict(self.memories))


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineParts:
    """The parts of an engine; `open_runtime` and `create_context_engine` join the usual ones.

    - `roots`: template roots; the first that has a file wins.
    - `worlds`: packs that the host has at hand. Each becomes the present version of its world in the store when a session of it
      is first worked on; the packs of all other worlds are read from the store (`jacquard.pipeline.worlds`).
    - `opening`: the world in which a session that is not there starts with its first turn; None: that is an error.
    - `pruner`: the one that always prunes, or pruners of the host by name. The turn's `prune.policy` chooses from these and
      the shipped ones.
    - `shortener`: shortens texts; None: the `summarizer` does, and without that texts are cut by sentences.
    - `summarizer`: None: a rolling summary is made of the sentences that tell most, without a model.
    - `consolidator`: the model that turns play into memory; None: nothing is consolidated.
    - `redactor` searches what users say for secrets, and arguments of tools and fetched texts for personal data too; None: nothing
      is searched.
    - `ingestor`: takes in results of tools, by `ingest_options`; None: the host stores evidence itself.
    - `refiner`: tier 1 of the planner.
    - `ahead`: embeds the user's message while it is planned, and the newest messages after a committed turn.
    - `feeder`: indexes what committed turns wrote, behind them; None: recall does so itself, in the next turn.
    - `deriver`, `resolver` and `renderer` make text of evidence and of the session's context blocks, by `derive_options` and
      `render_hints`; None: the built-in ones. `fetchers`, by scheme, give the built-in resolver the texts of pointers to other
      places; `ref_selector` follows selectors, `hasher` names texts, in all of them.
    - `assembler` joins the blocks into messages.
    - `events` receives the events, `tracing` the spans.
    - `waiting` holds what is known of prepared turns; an erasure clears it. `failures` holds why work behind turns failed.
    - `locks`: make calls on a session serial among processes; None: among the tasks of this process alone.
    """

    store: Store
    planner: Planner
    automation: AutomationStream
    curation: CurationStream
    pruner: Pruner | Mapping[str, Pruner] | None
    estimator: TokenEstimator
    clock: Clock
    roots: tuple[Path, ...]
    worlds: Mapping[str, WorldPack] = field(default_factory=lambda: EMPTY)
    shortener: Shortener | None = None
    summarizer: Summarizer | None = None
    consolidator: LlmAdapter | None = None
    redactor: Redactor | None = None
    ingestor: EvidenceIngestor | None = None
    ingest_options: IngestOptions | None = None
    refiner: PlanRefiner | None = None
    events: EventBus | None = None
    locks: SessionLocks | None = None
    tracing: Tracing = NO_TRACING
    ahead: QueryPrefetcher | None = None
    feeder: IndexFeeder | None = None
    opening: WorldPack | None = None
    deriver: BlockDeriver | None = None
    resolver: EvidenceResolver | None = None
    renderer: Renderer | None = None
    derive_options: DeriveOptions = EVERYTHING
    render_hints: RenderHints = NO_HINTS
    fetchers: Mapping[str, Fetch] = field(default_factory=lambda: EMPTY)
    ref_selector: TextSelector | None = None
    hasher: Hasher = DEFAULT_HASHER
    assembler: Assembler = ROLE_MESSAGES
    waiting: WaitingTurns = field(default_factory=WaitingTurns)
    failures: ModelFailures = field(default_factory=ModelFailures)

    def host_mark(self) -> str:
        """Return what tells the parts of a host apart from others: the class of each, with its `name` and `version` where it has
        them, and its options; empty where all are built in. A prompt that other parts made is no answer to a repeated request.
        """
        given: dict[str, object] = {
            "deriver": self.deriver,
            "renderer": self.renderer,
            "assembler": None if self.assembler is ROLE_MESSAGES else self.assembler,
            "resolver": self.resolver,
            "ref_selector": self.ref_selector,
            "hasher": None if self.hasher is DEFAULT_HASHER else self.hasher,
            **{f"pruner {name}": pruner for name, pruner in _pruners_of(self.pruner).items()},
            **{f"fetcher {scheme}": fetch for scheme, fetch in self.fetchers.items()},
        }
        marks = [f"{what}: {_name_of(part)}" for what, part in given.items() if part is not None]
        if self.derive_options != EVERYTHING:
            marks.append(repr(self.derive_options))
        if self.render_hints != NO_HINTS:
            marks.append(repr(self.render_hints))
        return "\n".join(marks)

    def evidence_parts(self, *, redacts: bool = True) -> EvidenceParts:
        """Return what derives, resolves and renders evidence, the built-in part where the host brings none. `redacts`: whether a
        fetched text is redacted.
        """
        hash_text, selector = self.hasher.digest, self.ref_selector
        resolver = RefResolver(
            self.store,
            self.clock,
            fetchers=self.fetchers,
            hash_text=hash_text,
            text_selector=selector,
            redactor=self.redactor if redacts else None,
        )
        count = self.estimator.estimate
        return EvidenceParts(
            deriver=self.deriver
            or EvidenceBlockDeriver(self.clock, count, hash_text=hash_text, text_selector=selector),
            resolver=self.resolver or resolver,
            renderer=self.renderer or RefRenderer(),
            options=_mark_authored(self.derive_options),
            hints=self.render_hints,
        )

    @asynccontextmanager
    async def overlay(self) -> AsyncIterator[EngineParts]:
        """Give parts of an engine that decides as one of these does and writes nothing: what it would write is in memory."""
        store = OverlayStore(self.store)
        async with self.curation.overlay(store, store.own_scopes) as curation:
            yield replace(
                self,
                store=cast(Store, store),
                curation=curation,
                events=None,
                locks=None,
                feeder=None,
                waiting=WaitingTurns(),
                failures=self.failures.copy(),
            )


def _pruners_of(pruner: Pruner | Mapping[str, Pruner] | None) -> Mapping[str, object]:
    return pruner if isinstance(pruner, Mapping) else {"": pruner}


def _name_of(part: object) -> str:
    """Return how a part is called: its function or class, with its `name` and `version`."""
    kind = part if hasattr(part, "__qualname__") else type(part)
    said = (getattr(part, name, "") for name in ("name", "version"))
    return " ".join(
        (f"{kind.__module__}.{getattr(kind, '__qualname__', '')}", *(each for each in said if isinstance(each, str)))
    )


def _mark_authored(options: DeriveOptions) -> DeriveOptions:
    """Return options whose instructions, which the host wrote, have the label of that unless they have one."""
    marked = tuple(
        replace(block, extra={TRUST: Trust.AUTHORED.value, **block.extra}) for block in options.custom_instructions
    )
    return replace(options, custom_instructions=marked)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostParts:
    """What a host puts in the place of built-in parts of an engine that `open_runtime` opens; None, or
    what is left out: the built-in one.

    Each is described at its Protocol. `pruner` prunes always, or is chosen by the name in `prune.policy`. `fetchers`, by scheme,
    fetch the texts of evidence that lies elsewhere. `id_generator` names new evidence.
    """

    deriver: BlockDeriver | None = None
    renderer: Renderer | None = None
    assembler: Assembler = ROLE_MESSAGES
    resolver: EvidenceResolver | None = None
    fetchers: Mapping[str, Fetch] = field(default_factory=lambda: EMPTY)
    ref_selector: TextSelector | None = None
    id_generator: IdGenerator | None = None
    hasher: Hasher = DEFAULT_HASHER
    derive_options: DeriveOptions = EVERYTHING
    render_hints: RenderHints = NO_HINTS
    pruner: Pruner | Mapping[str, Pruner] | None = None

    def put_into(self, parts: EngineParts) -> EngineParts:
        """Return the parts of an engine with these."""
        return replace(
            parts,
            deriver=self.deriver,
            renderer=self.renderer,
            assembler=self.assembler,
            resolver=self.resolver,
            fetchers=self.fetchers,
            ref_selector=self.ref_selector,
            hasher=self.hasher,
            derive_options=self.derive_options,
            render_hints=self.render_hints,
            pruner=self.pruner,
        )


NO_PARTS = HostParts()
