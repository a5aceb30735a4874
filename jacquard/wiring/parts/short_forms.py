"""Completes parts of a host that have a shorter form than our Protocols: the one of the SDK's design, with fewer arguments.

A part is recognized by its shape (its methods and how they can be called), and wrapped once, when the engine is built. A
warning names the better form.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from jacquard.adapters.observe.bus import InMemoryEventBus
from jacquard.config.sections import SummaryConfig
from jacquard.core.block_kinds import BlockKind
from jacquard.core.blocks import FRAME, PlacedBlock, Skein
from jacquard.core.errors import ConfigError, SummarizerError
from jacquard.core.protocols import Summarizer, SummaryRequest, SummaryText
from jacquard.core.receipt import BlockSpan
from jacquard.pipeline.weaving.assemble import AssembledPrompt, Assembler, PromptMessage
from mnemosyne.core.errors import EvidenceNotFoundError, SelectorResolveError
from mnemosyne.protocols import Clock, EventBus, EvidenceIngestor, EvidenceResolver, Store, TokenEstimator
from mnemosyne.schema.document import Session, Summary
from mnemosyne.schema.event import Event
from mnemosyne.schema.evidence import (
    Evidence,
    EvidenceLinks,
    EvidenceSource,
    EvidenceType,
    RefFault,
    RenderedBlock,
    ResolvedRef,
)
from mnemosyne.schema.ingest import IngestOptions, IngestResult
from mnemosyne.schema.session import Message, Ref, Role
from mnemosyne.stores.document_store import DocumentStore


def _warn(part: object, have: str, better: str) -> None:
    text = f"{type(part).__name__} has {have} and is completed; the form with all that an engine can use is {better}."
    warnings.warn(text, UserWarning, stacklevel=4)


_METHODS: dict[str, tuple[str, ...]] = {
    "store": ("put_session",),
    "token_estimator": ("estimate", "estimate_text"),
    "clock": ("now", "now_iso"),
    "event_bus": ("emit",),
    "redactor": ("redact",),
    "ingestor": ("ingest",),
    "summarizer": ("summarize",),
    "id_generator": ("generate",),
    "hasher": ("digest",),
    "deriver": ("derive",),
    "renderer": ("render_block",),
    "resolver": ("resolve",),
    "assembler": ("assemble",),
}
"""Argument -> methods of which its part must have one."""


def check_parts(**parts: object) -> None:
    """Check that every part of a host that is given has a method of its Protocol.

    Raises ConfigError with all faults: the argument, the class, the missing method. A class in place of its object is a
    fault, too.
    """
    faults = []
    for argument, part in parts.items():
        names = _METHODS[argument]
        if part is None and argument != "store":
            continue
        wanted = " or ".join(f"`{each}`" for each in names)
        if not any(callable(getattr(part, each, None)) for each in names):
            faults.append(f"{argument} is {type(part).__name__}, which has no {wanted}; give an object that has it.")
        elif isinstance(part, type):
            faults.append(f"{argument} is the class {part.__name__}; give an object of it, as {part.__name__}().")
    if faults:
        raise ConfigError("\n".join(faults))


def can_call(method: Callable[..., Any], *args: object, **named: object) -> bool:
    """Return whether `method` accepts these arguments, by its signature. The method is not called."""
    try:
        inspect.signature(method).bind(*args, **named)
    except TypeError:
        return False
    except ValueError:
        # A method without a signature, such as one of C.
        return True
    return True


def complete_store(store: Any) -> Store:
    """Return `store`, or, if it has only the methods that read and write documents, a `DocumentStore` on it."""
    if hasattr(store, "window") or not hasattr(store, "put_session"):
        return cast(Store, store)
    _warn(store, "only the methods of documents", "mnemosyne.Store (its contract suite: mnemosyne.testing.store)")
    return cast(Store, DocumentStore(store))


def complete_estimator(estimator: Any) -> TokenEstimator:
    """Return `estimator`, or, if it has only `estimate_text` and its like, an estimator on it."""
    if hasattr(estimator, "estimate"):
        return cast(TokenEstimator, estimator)
    _warn(estimator, "no `estimate`", "mnemosyne.TokenEstimator: `name` and `estimate(text)`")
    return ShortEstimator(estimator)


def complete_clock(clock: Any) -> Clock:
    """Return `clock`, or, if it has only `now_iso`, a clock on it."""
    if hasattr(clock, "now"):
        return cast(Clock, clock)
    _warn(clock, "no `now`", "mnemosyne.Clock: `now()`, an aware datetime")
    return ShortClock(clock)


def complete_bus(bus: Any) -> EventBus:
    """Return `bus`, or, if it has no `has_handler`, a bus on it for which every event is made."""
    if hasattr(bus, "has_handler"):
        return cast(EventBus, bus)
    _warn(bus, "no `has_handler`", "mnemosyne.EventBus: events without a handler are then never made")
    return ShortBus(bus)


def complete_resolver(resolver: Any) -> EvidenceResolver:
    """Return `resolver`, or, if it takes (evidence_id, selector), a resolver on it."""
    if can_call(resolver.resolve, "session", object(), None):
        return cast(EvidenceResolver, resolver)
    better = "mnemosyne.EvidenceResolver: `resolve(session_id, ref, evidence)`, which also tells why a text is missing"
    _warn(resolver, "`resolve(evidence_id, selector)`", better)
    return ShortResolver(resolver)


def complete_ingestor(ingestor: Any, store: Store) -> EvidenceIngestor:
    """Return `ingestor`, or, if its `ingest` takes no session id, an ingestor on it that stores its items in `store`."""
    named = {"links": None, "metadata": None, "options": None}
    if can_call(ingestor.ingest, "session", "text", object(), object(), **named):
        return cast(EvidenceIngestor, ingestor)
    _warn(ingestor, "an `ingest` without a session id", "mnemosyne.EvidenceIngestor: `ingest(session_id, content, …)`")
    return ShortIngestor(ingestor, store)


def complete_summarizer(summarizer: Any, config: SummaryConfig) -> Summarizer:
    """Return `summarizer`, or, if its `summarize` takes messages, a summarizer on it."""
    if hasattr(summarizer, "name") and not hasattr(summarizer, "should_summarize"):
        return cast(Summarizer, summarizer)
    better = "jacquard.Summarizer: `name` and `summarize(request)`, which also gets turns, names and changes"
    _warn(summarizer, "`summarize(messages, existing_summary, config)`", better)
    return ShortSummarizer(summarizer, config)


def complete_assembler(assembler: Any) -> Assembler:
    """Return `assembler`, or, if it takes (messages, rendered_blocks, model_hint), an assembler on it."""
    method = assembler.assemble
    # A method that takes any number of arguments is taken for one of ours.
    if not can_call(method, (), (), None) or can_call(method, *range(9)):
        return cast(Assembler, assembler)
    better = "jacquard.Assembler: `assemble(skein, count)`, which places every block and its span"
    _warn(assembler, "`assemble(messages, rendered_blocks, model_hint)`", better)
    return ShortAssembler(assembler)


class _Short:
    """Part of a host in its shorter form. It has the host's name, for logs and fingerprints."""

    def __init__(self, part: Any) -> None:
        self._part = part
        self.name = str(getattr(part, "name", "") or f"{type(part).__module__}.{type(part).__qualname__}")


class ShortEstimator(_Short):
    """Counts by `estimate_text` of a host's estimator."""

    def estimate(self, text: str) -> int:
        """Return the number of tokens of `text` (0 for the empty text)."""
        return int(self._part.estimate_text(text)) if text else 0

    def estimate_text(self, text: str, model_hint: str | None = None) -> int:
        """Return the number of tokens of `text` for the model `model_hint`."""
        return int(self._part.estimate_text(text, model_hint))

    def estimate_message(self, role: str, content: str, model_hint: str | None = None) -> int:
        """Return the number of tokens of one message."""
        return int(self._part.estimate_message(role, content, model_hint))

    def estimate_messages(self, messages: Iterable[Any], model_hint: str | None = None) -> int:
        """Return the number of tokens of `messages`."""
        return int(self._part.estimate_messages(list(messages), model_hint))


class ShortClock(_Short):
    """Reads the ISO texts of a host's clock. A time without a zone is UTC."""

    def now(self) -> datetime:
        """Return the current time as an aware datetime."""
        at = datetime.fromisoformat(self._part.now_iso())
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


class ShortBus(InMemoryEventBus):
    """Passes every event on to a host's bus, and then to the engine's own handlers."""

    def __init__(self, bus: Any) -> None:
        super().__init__()
        self._bus = bus
        self.on_all(self._pass_on)

    async def _pass_on(self, event: Event) -> None:
        await self._bus.emit(event)


class ShortResolver(_Short):
    """Resolves refs by a host's `resolve(evidence_id, selector)`."""

    async def resolve(self, session_id: str, ref: Ref, evidence: Evidence | None = None) -> ResolvedRef:
        """Return the text of `ref`, or the fault that makes it unavailable."""
        try:
            text = await self._part.resolve(ref.evidence_id, ref.selector)
        except EvidenceNotFoundError as error:
            return _missing(ref, RefFault.EVIDENCE_NOT_FOUND, error)
        except SelectorResolveError as error:
            return _missing(ref, RefFault.SELECTOR_RESOLVE_FAILED, error)
        return ResolvedRef(ref=ref, text=str(text), evidence=evidence)


def _missing(ref: Ref, fault: RefFault, error: Exception) -> ResolvedRef:
    return ResolvedRef(ref=ref, fault=fault, detail=f"{fault}: evidence {ref.evidence_id}: {error}")


class ShortIngestor(_Short):
    """Ingests by a host's `ingest(content, source, evidence_type, …)`, and stores what it returns in the session."""

    def __init__(self, part: Any, store: Store) -> None:
        super().__init__(part)
        self._store = store

    async def ingest(
        self,
        session_id: str,
        content: str,
        source: EvidenceSource,
        evidence_type: EvidenceType,
        *,
        links: EvidenceLinks | None = None,
        metadata: Mapping[str, Any] | None = None,
        options: IngestOptions | None = None,
    ) -> IngestResult:
        """Return the host's evidence item as the result of an ingestion."""
        told = None if metadata is None else dict(metadata)
        evidence: Evidence = await self._part.ingest(
            content, source, evidence_type, links=links, metadata=told, options=options
        )
        known = await self._store.get_evidence(session_id, evidence.evidence_id)
        if known is None and not (options or IngestOptions()).dry_run:
            # Without the turn and the call that it came from, an item would belong to no turn.
            linked = evidence if links is None or evidence.links != EvidenceLinks() else replace(evidence, links=links)
            await self._store.put_evidence(session_id, linked)
            evidence = linked
        return IngestResult(evidence=evidence, is_new=known is None)


class ShortSummarizer(_Short):
    """Summarizes by a host's `summarize(messages, existing_summary, config)`."""

    def __init__(self, part: Any, config: SummaryConfig) -> None:
        super().__init__(part)
        self._config = config

    async def summarize(self, request: SummaryRequest) -> SummaryText:
        """Return the summary. Raises SummarizerError if the host's `should_summarize` refuses, or it fails."""
        messages = tuple(
            Message(role=Role.ASSISTANT if who == (request.narrator or Role.ASSISTANT) else Role.USER, content=text)
            for turn in request.turns
            for who, text in turn.lines
        )
        existing = Summary(content=request.previous) if request.previous else None
        try:
            wanted = getattr(self._part, "should_summarize", None)
            if wanted is not None and not await wanted(
                Session(session_id="", messages=messages, summary=existing), self._config
            ):
                raise SummarizerError(f"{self.name} wants no summary yet (should_summarize)")
            made = await self._part.summarize(list(messages), existing, self._config)
        except SummarizerError:
            raise
        except Exception as error:
            raise SummarizerError(f"{self.name}: {type(error).__name__}: {error}") from error
        content = made if isinstance(made, str) else getattr(made, "content", "")
        if not isinstance(content, str) or not content.strip():
            raise SummarizerError(f"{self.name} returned no text")
        return SummaryText(content=content)


class ShortAssembler(_Short):
    """Assembles by a host's `assemble(messages, rendered_blocks, model_hint)`. The span of a block is where a message has
    the unchanged text of the block; all other text belongs to the frame.
    """

    def assemble(self, skein: Skein, count: Callable[[str], int]) -> AssembledPrompt:
        """Return the prompt of a skein; `count` returns the tokens of a text."""
        said = [each for each in skein.blocks() if each.block.kind is BlockKind.MESSAGE or each is skein.user_input]
        rest = [each for each in skein.blocks() if each not in said]
        made = self._part.assemble(
            [Message(role=each.block.place.role, content=each.content) for each in said],
            [_rendered(each) for each in rest],
            None,
        )
        messages = tuple(PromptMessage(role=str(each.role), content=each.content) for each in made.parts)
        spans = _find_spans([each.content for each in messages], [*rest, *said], count)
        text = made.text if isinstance(made.text, str) else "\n\n".join(each.content for each in messages)
        return AssembledPrompt(messages=messages, text=text, spans=spans, tokens=sum(each.tokens for each in spans))


def _rendered(placed: PlacedBlock) -> RenderedBlock:
    return RenderedBlock(
        block_id=placed.block_id,
        block_type=placed.block_type,
        priority=placed.priority,
        rendered_content=placed.content,
        token_estimate=placed.tokens,
    )


def _find_spans(
    contents: Sequence[str], blocks: Sequence[PlacedBlock], count: Callable[[str], int]
) -> tuple[BlockSpan, ...]:
    """Return the spans of `blocks` in the messages `contents`, each block at its first free place, and of the frame."""
    taken: list[list[tuple[int, int, PlacedBlock]]] = [[] for _ in contents]
    for placed in sorted(blocks, key=lambda each: -len(each.content)):
        for text, places in zip(contents, taken, strict=True):
            start = _find_free(text, placed.content, places)
            if start is not None:
                places.append((start, start + len(placed.content), placed))
                break
    spans: list[BlockSpan] = []
    for message, (text, places) in enumerate(zip(contents, taken, strict=True)):
        at = 0
        for start, end, placed in sorted(places, key=lambda each: each[0]):
            spans.append(_frame(message, at, start, count(text[at:start])))
            spans.append(
                BlockSpan(
                    block_id=placed.block_id,
                    message=message,
                    start=start,
                    end=end,
                    tokens=placed.tokens,
                    kind=placed.block.kind,
                )
            )
            at = end
        spans.append(_frame(message, at, len(text), count(text[at:])))
    return tuple(spans)


def _frame(message: int, start: int, end: int, tokens: int) -> BlockSpan:
    return BlockSpan(block_id=FRAME, message=message, start=start, end=end, tokens=tokens)


def _find_free(text: str, part: str, places: Sequence[tuple[int, int, PlacedBlock]]) -> int | None:
    """Return the first place of `part` in `text` that overlaps none of `places` (None: there is none)."""
    at = text.find(part) if part else -1
    while at >= 0:
        if all(at + len(part) <= start or at >= end for start, end, _ in places):
            return at
        at = text.find(part, at + 1)
    return None
