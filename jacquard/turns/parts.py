"""Parts of an engine."""

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
from mnemosyne.documents.document_trust import TRUST
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
    """Reasons why the last summary and consolidation of a session failed, by session, in this process."""

    summaries: dict[str, str] = field(default_factory=dict)
    memories: dict[str, str] = field(default_factory=dict)

    def copy(self) -> ModelFailures:
        """Return an independent copy."""
        return ModelFailures(dict(self.summaries), dict(self.memories))


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineParts:
    """Parts of an engine; `open_runtime` and `create_context_engine` join the usual ones."""

    store: Store
    planner: Planner
    automation: AutomationStream
    curation: CurationStream
    pruner: Pruner | Mapping[str, Pruner] | None
    """Pruner of all turns, or the host's pruners by name; `prune.policy` chooses from these and the shipped ones."""
    estimator: TokenEstimator
    clock: Clock
    roots: tuple[Path, ...]
    """Roots of templates; the first that has a file wins."""
    worlds: Mapping[str, WorldPack] = field(default_factory=lambda: EMPTY)
    """Packs of the host. Each becomes its world's present version in the store with the first session of the world.

    The packs of all other worlds are read from the store (`jacquard.pipeline.worlds`).
    """
    shortener: Shortener | None = None
    """Shortens texts. None: `summarizer` does; without that, texts are cut by sentences."""
    summarizer: Summarizer | None = None
    """None: a rolling summary consists of the most informative sentences, without a model."""
    consolidator: LlmAdapter | None = None
    """Model that makes memory from turns. None: there is no consolidation."""
    redactor: Redactor | None = None
    """Removes secrets from user messages, and also personal data from tool arguments and fetched texts. None: nothing is
    searched.
    """
    ingestor: EvidenceIngestor | None = None
    """Stores results of tools, by `ingest_options`. None: the host stores evidence itself."""
    ingest_options: IngestOptions | None = None
    refiner: PlanRefiner | None = None
    """Tier 1 of the planner."""
    events: EventBus | None = None
    """Receives the events."""
    locks: SessionLocks | None = None
    """Make calls on a session serial among processes. None: only among the tasks of this process."""
    tracing: Tracing = NO_TRACING
    """Receives the spans."""
    ahead: QueryPrefetcher | None = None
    """Embeds the user's message while it is planned, and the newest messages after a committed turn."""
    feeder: IndexFeeder | None = None
    """Indexes the entries of committed turns in the background. None: recall does so in the next turn."""
    opening: WorldPack | None = None
    """World of a missing session that its first turn starts. None: a missing session is an error."""
    deriver: BlockDeriver | None = None
    """Makes blocks of evidence and the session's context blocks, by `derive_options`. None: the built-in one."""
    resolver: EvidenceResolver | None = None
    """Resolves refs. None: the built-in one."""
    renderer: Renderer | None = None
    """Renders blocks, by `render_hints`. None: the built-in one."""
    derive_options: DeriveOptions = EVERYTHING
    render_hints: RenderHints = NO_HINTS
    fetchers: Mapping[str, Fetch] = field(default_factory=lambda: EMPTY)
    """Fetch the texts of pointers to other places for the built-in resolver, by scheme."""
    ref_selector: TextSelector | None = None
    """Follows selectors, for all of these."""
    hasher: Hasher = DEFAULT_HASHER
    """Names texts, for all of these."""
    assembler: Assembler = ROLE_MESSAGES
    """Joins the blocks into messages."""
    waiting: WaitingTurns = field(default_factory=WaitingTurns)
    """Cache of prepared turns; an erasure clears it."""
    failures: ModelFailures = field(default_factory=ModelFailures)
    """Reasons for failed background work."""

    def host_mark(self) -> str:
        """Return a fingerprint of the host's own parts ('' if all are built in); it is part of the request fingerprint.

        It consists of their classes, `name` and `version` if they have them, and options, because other parts make other
        prompts.
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
        """Return the parts that derive, resolve and render evidence; built-in ones if the host provides none.

        `redacts`: redact fetched texts.
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
        """Yield parts of an engine that decides like this one and writes only to memory."""
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
    """Return the name of a part: its function or class, with its `name` and `version`."""
    kind = part if hasattr(part, "__qualname__") else type(part)
    said = (getattr(part, name, "") for name in ("name", "version"))
    return " ".join(
        (f"{kind.__module__}.{getattr(kind, '__qualname__', '')}", *(each for each in said if isinstance(each, str)))
    )


def _mark_authored(options: DeriveOptions) -> DeriveOptions:
    """Return options that label instructions as authored, unless they have a label, because the host wrote them."""
    marked = tuple(
        replace(block, extra={TRUST: Trust.AUTHORED.value, **block.extra}) for block in options.custom_instructions
    )
    return replace(options, custom_instructions=marked)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostParts:
    """Parts of a host that replace built-in parts of an engine opened by `open_runtime`.

    None, or a missing part, means the built-in one. Each is described at its Protocol.
    """

    deriver: BlockDeriver | None = None
    renderer: Renderer | None = None
    assembler: Assembler = ROLE_MESSAGES
    resolver: EvidenceResolver | None = None
    """Fetch the texts of evidence in other places, by scheme."""
    fetchers: Mapping[str, Fetch] = field(default_factory=lambda: EMPTY)
    ref_selector: TextSelector | None = None
    id_generator: IdGenerator | None = None
    """Names new evidence."""
    hasher: Hasher = DEFAULT_HASHER
    derive_options: DeriveOptions = EVERYTHING
    render_hints: RenderHints = NO_HINTS
    pruner: Pruner | Mapping[str, Pruner] | None = None
    """Pruner of all turns, or pruners by name for `prune.policy`."""

    def put_into(self, parts: EngineParts) -> EngineParts:
        """Return the parts of an engine with these parts put in."""
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
