"""Lists the parts that an engine is made of, and the parts that a host may replace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import field, replace
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
from mnemosyne.values import dataclass


@dataclass(frozen=True, slots=True)
class ModelFailures:
    """Session id -> reason why the last summary or consolidation of the session failed. The reasons are known only in
    this process.
    """

    summaries: dict[str, str] = field(default_factory=dict)
    memories: dict[str, str] = field(default_factory=dict)

    def copy(self) -> ModelFailures:
        """Return an independent copy."""
        return ModelFailures(dict(self.summaries), dict(self.memories))


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineParts:
    """Parts of an engine. `open_runtime` and `create_context_engine` put the usual parts together."""

    store: Store
    planner: Planner
    automation: AutomationStream
    curation: CurationStream
    pruner: Pruner | Mapping[str, Pruner] | None
    """Pruner of all turns, or the host's pruners by name. The setting `prune.policy` chooses among the host's pruners
    and the built-in pruners.
    """
    estimator: TokenEstimator
    clock: Clock
    roots: tuple[Path, ...]
    """Folders of templates. A file is taken from the first folder that has it."""
    worlds: Mapping[str, WorldPack] = field(default_factory=lambda: EMPTY)
    """Packs of the host by world id. With the first session of a world, its pack becomes the world's present version in
    the store.

    Packs of all other worlds are read from the store (`jacquard.pipeline.worlds`).
    """
    shortener: Shortener | None = None
    """Shortens texts that do not fit. None: `summarizer` shortens them; if this is None too, texts are cut after a
    sentence.
    """
    summarizer: Summarizer | None = None
    """Writes rolling summaries. None: a summary consists of the most informative sentences, without a model."""
    consolidator: LlmAdapter | None = None
    """Model that makes memories from past turns. None: there is no consolidation."""
    redactor: Redactor | None = None
    """Masks secrets in user messages. In tool arguments and fetched texts it also masks personal data. None: nothing is
    searched.
    """
    ingestor: EvidenceIngestor | None = None
    """Stores results of tools as evidence, with `ingest_options`. None: the host stores evidence itself."""
    ingest_options: IngestOptions | None = None
    refiner: PlanRefiner | None = None
    """Tier 1 of the planner: asks a model if the rules of tier 0 are not sure of their plan. None: the rules decide."""
    events: EventBus | None = None
    """Receives the engine's events."""
    locks: SessionLocks | None = None
    """Locks that order the calls of several processes on one session. None: only calls of this process are ordered."""
    tracing: Tracing = NO_TRACING
    """Receives the tracing spans (timed steps of a call)."""
    ahead: QueryPrefetcher | None = None
    """Computes vectors ahead: of the user's message during planning, and of the newest messages after a committed turn."""
    feeder: IndexFeeder | None = None
    """Indexes the entries of committed turns in the background. None: recall indexes them in the next turn."""
    opening: WorldPack | None = None
    """World for sessions that do not exist yet: the first turn starts the session in this world. None: a missing
    session is an error.
    """
    deriver: BlockDeriver | None = None
    """Makes blocks from evidence and from the session's context blocks, by `derive_options`. None: the built-in
    deriver.
    """
    resolver: EvidenceResolver | None = None
    """Finds the text that a ref (pointer to evidence) points to. None: the built-in resolver."""
    renderer: Renderer | None = None
    """Renders blocks, by `render_hints`. None: the built-in renderer."""
    derive_options: DeriveOptions = EVERYTHING
    render_hints: RenderHints = NO_HINTS
    fetchers: Mapping[str, Fetch] = field(default_factory=lambda: EMPTY)
    """Fetch the texts of evidence that lies in other places, by URI scheme. The built-in resolver uses them."""
    ref_selector: TextSelector | None = None
    """Finds the part of a text that a selector names. The deriver and the built-in resolver use this part. None: the
    built-in selector.
    """
    hasher: Hasher = DEFAULT_HASHER
    """Computes the hash that identifies a text, in the deriver, the resolver and the composer of prompts."""
    assembler: Assembler = ROLE_MESSAGES
    """Joins the blocks of a prompt into messages."""
    waiting: WaitingTurns = field(default_factory=WaitingTurns)
    """Cache of prepared turns that wait for their reply. An erasure clears it."""
    failures: ModelFailures = field(default_factory=ModelFailures)
    """Reasons why background work failed."""

    def host_mark(self) -> str:
        """Return a fingerprint of the host's own parts. Return '' if all parts are built in.

        The fingerprint is part of the request fingerprint (`request_fingerprint`), because other parts make other
        prompts. It consists of the classes of the host's parts, their `name` and `version` if they have any, and the
        options.
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
        """Return the parts that derive, resolve and render evidence. Parts that the host does not provide are the
        built-in ones.

        If `redacts` is true, texts that are fetched from other places are redacted.
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
        """Yield the parts of an engine that makes the same decisions as this one, but writes only to memory and not to
        the store.
        """
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

    A field that is None, or an empty mapping, leaves the built-in part in place. The Protocol of each part describes
    the part.
    """

    deriver: BlockDeriver | None = None
    renderer: Renderer | None = None
    assembler: Assembler = ROLE_MESSAGES
    resolver: EvidenceResolver | None = None
    """Finds the text that a ref (pointer to evidence) points to."""
    fetchers: Mapping[str, Fetch] = field(default_factory=lambda: EMPTY)
    """Fetch the texts of evidence that lies in other places, by URI scheme."""
    ref_selector: TextSelector | None = None
    id_generator: IdGenerator | None = None
    """Makes the ids of new evidence."""
    hasher: Hasher = DEFAULT_HASHER
    derive_options: DeriveOptions = EVERYTHING
    render_hints: RenderHints = NO_HINTS
    pruner: Pruner | Mapping[str, Pruner] | None = None
    """Pruner of all turns, or pruners by name, from which the setting `prune.policy` chooses."""

    def put_into(self, parts: EngineParts) -> EngineParts:
        """Return `parts` with the parts of this object in place of the built-in ones."""
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
