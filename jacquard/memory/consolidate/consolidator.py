"""Makes the memory of one branch in the background: summaries and events of single turns, then narratives over many
turns.

Turns are processed in batches. Each batch is written as soon as it is made. The ids of its entries are derived from its
turns, so the work can be stopped at any time, continued, and repeated without harm. Each entry belongs to a turn and so
follows the branch of that turn. A batch that fails is reported and left for the next run; later batches are still
tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from time import perf_counter

import anyio
from anyio.abc import TaskGroup

from jacquard.adapters.observe.bus import EventEmitter
from jacquard.adapters.prompts.templates import find_text_language, warm_prompts
from jacquard.config.sections import ConsolidationConfig
from jacquard.core.degradations import DegradationCode
from jacquard.core.errors import ModelError, SummarizerError
from jacquard.core.model_calls import Call, usage_of
from jacquard.core.names import NameDictionary
from jacquard.core.protocols import ConversationTurn, LlmAdapter, LlmRequest, LlmResponse
from jacquard.memory.consolidate.prompts import (
    FACTS_SHOWN,
    OPEN_SHOWN,
    TurnEvent,
    TurnMemory,
    macro_request,
    read_narrative,
    read_turns,
    turns_request,
)
from jacquard.memory.consolidate.spans import (
    CHAPTER_END,
    TURN_SUMMARY,
    MacroSpan,
    chapter_depths,
    find_narrated_depth,
    macro_id,
    macro_spans,
    split_batches,
    tell_together,
)
from jacquard.memory.path_entries import find_unsummarized_turns, load_path_entries
from jacquard.memory.threads import build_keeping, build_thread, name_entities, open_threads
from jacquard.memory.verbs.proposals import load_proposals, load_waiting, propose_entry, proposed_entries
from jacquard.pipeline.record.events import emit_usage
from jacquard.pipeline.worlds import WorldSource, name_of_speaker, party_names
from mnemosyne.chains.audience import (
    Audience,
    audience_field,
    audience_of_entry,
    audience_of_messages,
    join_audiences,
    told_messages,
)
from mnemosyne.chains.story_facts import end_former_facts, valid_facts, value_of_fact
from mnemosyne.chains.turn_tree import place_at_turn
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.protocols import Clock, Store, TokenEstimator
from mnemosyne.schema.document import ModelUsage, ModelUsageStage
from mnemosyne.schema.event import EventType
from mnemosyne.schema.evidence import Evidence, EvidenceLinks, EvidenceSource, EvidenceType, SourceKind
from mnemosyne.schema.memory import (
    ATTRIBUTE,
    COPIED_FROM,
    EMPTY,
    FACT_ENDED,
    MACRO,
    SUBJECT,
    VALUE,
    Chain,
    MemoryEntry,
    Trust,
    session_scope,
)
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import SessionHead
from mnemosyne.values import dataclass


def make_entries(
    batch: Sequence[TurnRecord],
    memories: Sequence[TurnMemory],
    lexicon: NameDictionary,
    threads: Sequence[MemoryEntry] = (),
) -> list[MemoryEntry]:
    """Return the summaries, events and threads of the turns in `batch`. Each entry is visible to the viewers who may
    know its turn.

    `threads` are the open threads (promises, debts and questions that the story left open). An open thread that a turn
    resolves gets an event that ends it. A new thread that repeats an open one is skipped. `memories` are the memories
    that the model made of the turns, and `lexicon` contains the names of the world.
    """
    turns = {turn.depth: turn for turn in batch}
    made: list[MemoryEntry] = []
    for memory in memories:
        turn = turns[memory.depth]
        scope = session_scope(turn.session_id)
        guarded = audience_field(audience_of_messages(told_messages(turn.messages)))
        made.append(
            MemoryEntry(
                # Ids are derived from the turn, so that a repeated consolidation writes no entry twice.
                entry_id=f"{turn.turn_id}.summary",
                scope=scope,
                chain=Chain.NARRATIVE,
                kind=TURN_SUMMARY,
                text=memory.summary,
                at=turn.created_at,
                turn_id=turn.turn_id,
                entities=_find_known_names(memory.summary, lexicon),
                tags=(CHAPTER_END,) if memory.is_chapter_end else (),
                trust=Trust.MODEL,
                metadata=guarded or EMPTY,
            )
        )
        for number, event in enumerate(memory.events, start=1):
            names = (*event.participants, *((event.location,) if event.location else ()))
            made.append(
                MemoryEntry(
                    entry_id=f"{turn.turn_id}.event.{number}",
                    scope=scope,
                    chain=Chain.EVENT,
                    kind=event.type,
                    text=event.text,
                    at=turn.created_at,
                    turn_id=turn.turn_id,
                    entities=tuple(
                        dict.fromkeys((*map(lexicon.find_owner, names), *_find_known_names(event.text, lexicon)))
                    ),
                    trust=Trust.MODEL,
                    metadata={
                        "participants": list(event.participants),
                        "location": event.location or None,
                        **({} if not event.subject else _fact_of(event)),
                        **guarded,
                    },
                )
            )
        made += _make_threads(turn, memory, lexicon, threads)
    return made


def _select_known(entries: Iterable[MemoryEntry], audience: Audience) -> list[MemoryEntry]:
    """Return the entries that everybody in `audience` may know, in their order."""
    return [each for each in entries if join_audiences((audience, audience_of_entry(each))) == audience]


def _placed(entries: Sequence[MemoryEntry], batch: Sequence[TurnRecord]) -> list[MemoryEntry]:
    """Return entries with the places of their turns, as the store writes them."""
    turns = {turn.turn_id: turn for turn in batch}
    return [place_at_turn(each, turns[each.turn_id]) if each.turn_id in turns else each for each in entries]


def _fact_of(event: TurnEvent) -> dict[str, str]:
    return {SUBJECT: event.subject, ATTRIBUTE: event.attribute, VALUE: event.value}


def _make_threads(
    turn: TurnRecord, memory: TurnMemory, lexicon: NameDictionary, threads: Sequence[MemoryEntry]
) -> list[MemoryEntry]:
    """Return the threads that a turn opens and ends."""
    known = {kind for each in threads if each.turn_id == turn.turn_id for kind in each.tags}
    found = [
        build_thread(turn, f"{turn.turn_id}.open.{number}", each.kind, each.text, at=turn.created_at)
        for number, each in enumerate(memory.threads, start=1)
        if each.kind not in known
    ]
    kept = [threads[number - 1] for number in dict.fromkeys(memory.kept) if number <= len(threads)]
    ended = [
        build_keeping(turn, f"{turn.turn_id}.ends.{number}", each, memory.summary, turn.created_at)
        for number, each in enumerate(kept, start=1)
        if (each.depth or 0) < turn.depth
    ]
    return [*name_entities(found, lexicon), *ended]


def _find_known_names(text: str, lexicon: NameDictionary) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for found in lexicon.find(text) for one in found.entity_ids))


KEPT_BACK = 2
"""Number of newest turns that a background run leaves to the next run, because a player may still replace the replies
of these turns.
"""

_log = open_log(__name__)
Hold = Callable[[str], AbstractAsyncContextManager[None]]
Progress = Callable[[int, int], None]
"""Called with the number of turns done and the number of all turns."""


def ignore_progress(done: int, total: int) -> None:
    """Do nothing with the progress."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsolidationResult:
    """Result of one run of consolidation."""

    session_id: str
    branch_id: str
    summaries: int = 0
    """Number of turn summaries written."""
    events: int = 0
    """Number of events written."""
    narratives: int = 0
    """Number of narratives written."""
    left: int = 0
    """Number of turns that still have no summary."""
    failures: tuple[str, ...] = ()
    """Reasons why batches or narratives failed, one sentence each."""
    proposed: int = 0
    """Number of entries that this run proposed instead of writing them, because a person must decide (`memory.review`)."""
    waiting: int = 0
    """Number of all proposed entries that wait for a decision now."""


class Consolidator:
    """Makes memory from turns with a small model.

    `hold(session_id)` locks a session while its memory is written. `failures` maps a session to the reason why its last
    run failed.
    """

    def __init__(
        self,
        store: Store,
        model: LlmAdapter | None,
        estimator: TokenEstimator,
        clock: Clock,
        hold: Hold,
        worlds: WorldSource,
        emitter: EventEmitter,
        failures: dict[str, str],
    ) -> None:
        self._store, self._model, self._count, self._clock = store, model, estimator.estimate, clock
        self._hold, self._worlds, self._emitter = hold, worlds, emitter
        self._behind: dict[str, anyio.Event] = {}
        self._failures = failures

    @property
    def is_able(self) -> bool:
        """True if a model for consolidation is configured."""
        return self._model is not None

    def degradations(self, session_id: str) -> tuple[str, ...]:
        """Return a degradation (`code: detail`) if the last run of the session failed in this process, as a tuple of
        one item. Otherwise return an empty tuple.
        """
        failure = self._failures.get(session_id)
        return () if failure is None else (f"{DegradationCode.CONSOLIDATE_FAILED}: {failure}",)

    async def wait_until_idle(self) -> None:
        """Wait until no background run is active."""
        while self._behind:
            await next(iter(self._behind.values())).wait()

    def begin(
        self, tasks: TaskGroup, session_id: str, turn_id: str, config: ConsolidationConfig, *, review: bool
    ) -> None:
        """Start consolidation after a committed turn, if the depth of the turn is a multiple of `config.every_turns`. At most
        one run of a session is active at a time.

        The newest turns are left out, because a player may still replace their replies. If `review` is true, proposals
        are written instead of entries.
        """
        if self.is_able and config.every_turns and session_id not in self._behind:
            self._behind[session_id] = anyio.Event()
            tasks.start_soon(self._run, session_id, turn_id, config, review)

    async def _run(self, session_id: str, turn_id: str, config: ConsolidationConfig, review: bool) -> None:
        try:
            turn = await self._store.turn(session_id, turn_id)
            if turn.depth % config.every_turns == 0:
                await self.consolidate(session_id, config, branch_id=turn.branch_id, keep_back=KEPT_BACK, review=review)
        except Exception:
            _log.exception("the memory of session %s could not be made", session_id)
        finally:
            self._behind.pop(session_id).set()

    async def consolidate(
        self,
        session_id: str,
        config: ConsolidationConfig,
        *,
        branch_id: str | None = None,
        keep_back: int = 0,
        chapter_ends: bool = False,
        review: bool = False,
        progress: Progress = ignore_progress,
    ) -> ConsolidationResult:
        """Consolidate a branch up to its head, or up to `keep_back` turns before the head.

        Failures of the model raise no error; `ConsolidationResult.failures` lists them. Raises SessionNotFoundError if
        the session is unknown, BranchNotFoundError if the branch is unknown, and StoreError if the store fails. Entries
        written before an error stay.

        Args:
            session_id: id of the session.
            config: settings of consolidation.
            branch_id: branch to consolidate (None: the active one).
            keep_back: number of newest turns to leave out.
            chapter_ends: if true, a chapter of the story ends with the last consolidated turn.
            review: if true, write proposals instead of entries; a person accepts or rejects them later.
            progress: called with the number of turns done and the number of all turns.
        """
        await warm_prompts()
        head = await self._store.head(session_id, branch_id)
        world = await self._worlds.world(head.world_id)
        names = NameDictionary(world.entities)
        narratives = await self._load_narratives(head)
        asked = await self._load_proposed(head)
        known = {entry.turn_id for entry in (*narratives, *asked) if entry.kind == TURN_SUMMARY}
        bare = await find_unsummarized_turns(self._store, head, known, head.depth - keep_back)
        before = await load_path_entries(self._store, head, Chain.EVENT) if bare else []
        threads = open_threads(before)
        summaries, events, failures = 0, 0, []
        done = 0
        for batch in split_batches(bare, config.batch_turns):
            try:
                audience = audience_of_messages(told_messages(batch[0].messages))
                shown = _select_known(threads, audience)[-OPEN_SHOWN:]
                facts = _select_known(valid_facts(before), audience)[-FACTS_SHOWN:]
                memories = await self._extract_memories(head, batch, party_names(world), config, shown, facts)
            except (ModelError, SummarizerError) as error:
                failures.append(f"turns {batch[0].depth}-{batch[-1].depth}: {error}")
            else:
                # Each batch is stored at once, so an interruption loses no more than one.
                made = [*make_entries(batch, memories, names, shown)]
                made += end_former_facts(before, _placed(made, batch))
                threads = open_threads([*threads, *made])
                before += [each for each in _placed(made, batch) if each.chain is Chain.EVENT]
                keep = partial(self._keep, session_id, review=review)
                summaries += await keep([e for e in made if e.chain is Chain.NARRATIVE])
                events += await keep([e for e in made if e.chain is Chain.EVENT])
            done += len(batch)
            progress(done, len(bare))
        told, faults = await self._write_due_narratives(
            head, config, chapter_ends=chapter_ends, upto=head.depth - keep_back, review=review
        )
        failures += faults
        if failures:
            self._failures[session_id] = failures[0]
        else:
            self._failures.pop(session_id, None)
        for failure in failures:
            await self._emitter.emit(
                EventType.DEGRADED,
                session_id,
                head.turn_id,
                reason=DegradationCode.CONSOLIDATE_FAILED.value,
                detail=failure,
            )
        kept = (0, 0, 0) if review else (summaries, events, told)
        return ConsolidationResult(
            session_id=session_id,
            branch_id=head.branch_id,
            summaries=kept[0],
            events=kept[1],
            narratives=kept[2],
            left=len(bare) - summaries,
            failures=tuple(failures),
            proposed=summaries + events + told if review else 0,
            waiting=len(await load_waiting(self._store, session_id)) if review else 0,
        )

    async def _write_due_narratives(
        self, head: SessionHead, config: ConsolidationConfig, *, chapter_ends: bool, upto: int, review: bool
    ) -> tuple[int, list[str]]:
        """Write the narratives that are due. Return (number written, failures).

        The first failure ends the work, because later narratives continue earlier ones.
        """
        narratives = await self._load_narratives(head)
        texts = {entry.depth: entry for entry in narratives if entry.kind == TURN_SUMMARY and entry.depth is not None}
        chapters = chapter_depths(narratives, await load_path_entries(self._store, head, Chain.EVENT))
        depths = sorted(texts)
        if chapter_ends and depths:
            chapters |= {max(depth for depth in depths if depth <= upto)}
        macros = [entry for entry in narratives if entry.kind == MACRO]
        before = max(macros, key=lambda entry: entry.depth or 0) if macros else None
        made = 0
        for span in macro_spans(
            depths, find_narrated_depth([*narratives, *await self._load_proposed(head)]), chapters, config
        ):
            try:
                entry = await self._write_narrative(head, span, texts, before, config)
            except (ModelError, SummarizerError) as error:
                return made, [f"narrative of turns {span.first}-{span.last}: {error}"]
            made += await self._keep(head.session_id, [entry], review=review)
            before = entry
        return made, []

    async def _write_narrative(
        self,
        head: SessionHead,
        span: MacroSpan,
        texts: Mapping[int, MemoryEntry],
        before: MemoryEntry | None,
        config: ConsolidationConfig,
    ) -> MemoryEntry:
        whole = [(depth, texts[depth]) for depth in sorted(texts) if span.first <= depth <= span.last]
        last = whole[-1][1]
        told, audience = tell_together(whole)
        follows = before is not None and join_audiences((audience, audience_of_entry(before))) == audience
        lines = [(depth, entry.text) for depth, entry in told]
        locale = find_text_language("".join(text for _, text in lines))
        request = macro_request(
            lines, before.text if before is not None and follows else "", locale, config.timeout_seconds
        )
        narrative = read_narrative((await self._call_model(head, request, macro_id(last.turn_id or ""))).content)
        return MemoryEntry(
            entry_id=macro_id(last.turn_id or ""),
            scope=session_scope(head.session_id),
            chain=Chain.NARRATIVE,
            kind=MACRO,
            title=narrative.title,
            text=narrative.text,
            at=last.at,
            turn_id=last.turn_id,
            entities=tuple(dict.fromkeys(name for _, entry in told for name in entry.entities)),
            trust=Trust.MODEL,
            metadata={
                "from_turn": span.first,
                "to_turn": span.last,
                "ended_by": span.reason,
                **audience_field(audience),
            },
        )

    async def _extract_memories(
        self,
        head: SessionHead,
        batch: Sequence[TurnRecord],
        names: Mapping[str, str],
        config: ConsolidationConfig,
        threads: Sequence[MemoryEntry],
        facts: Sequence[MemoryEntry],
    ) -> tuple[TurnMemory, ...]:
        turns = tuple(
            ConversationTurn(
                turn_id=turn.turn_id,
                depth=turn.depth,
                lines=tuple(
                    (name_of_speaker(message, names), message.content)
                    for message in told_messages(turn.messages)
                    if message.content.strip()
                ),
            )
            for turn in batch
        )
        locale = find_text_language("".join(text for turn in turns for _, text in turn.lines))
        known = [(str(each.metadata[SUBJECT]), str(each.metadata[ATTRIBUTE]), value_of_fact(each)) for each in facts]
        request = turns_request(turns, locale, config.timeout_seconds, [each.text for each in threads], known)
        reply = await self._call_model(head, request, f"memory.{batch[-1].turn_id}")
        return read_turns(reply.content, [turn.depth for turn in batch])

    async def _call_model(self, head: SessionHead, request: LlmRequest, name: str) -> LlmResponse:
        """Call the model and record its answer and cost, even if the answer cannot be used."""
        if self._model is None:
            raise ModelError("unavailable", "no model is configured for consolidation")
        began = perf_counter()
        call = Call(model=self._model.model, prompt="\n".join(text for _, text in request.messages))
        try:
            reply = await self._model.generate(request)
        except ModelError as error:
            await self._record_usage(head, self._usage(f"{name}.failed", call, head, began, str(error)))
            raise
        call = replace(
            call,
            model=reply.model,
            answer=reply.content,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
        )
        usage = self._usage(f"{name}.call", call, head, began)
        evidence = Evidence(
            evidence_id=f"{name}.answer",
            type=EvidenceType.LLM_OUTPUT,
            source=EvidenceSource(kind=SourceKind.LLM, name=reply.model),
            content=reply.content,
            trust=Trust.MODEL,
            metadata={"what": "consolidation"},
            links=EvidenceLinks(model_usage_id=usage.model_usage_id),
            created_at=self._clock.now(),
        )
        await self._record_usage(head, usage, evidence)
        return reply

    async def _record_usage(self, head: SessionHead, usage: ModelUsage, evidence: Evidence | None = None) -> None:
        """Record a call and its answer."""
        async with self._hold(head.session_id):
            if evidence is not None:
                await self._store.put_evidence(head.session_id, evidence)
            await self._store.append_model_usage(head.session_id, [usage])
        await emit_usage(self._emitter, head.session_id, head.turn_id, usage)

    def _usage(self, usage_id: str, call: Call, head: SessionHead, began: float, error: str = "") -> ModelUsage:
        timed = replace(call, latency_ms=(perf_counter() - began) * 1000)
        stage = ModelUsageStage.SUMMARIZE
        return usage_of(usage_id, timed, self._count, stage=stage, purpose="memory", turn_id=head.turn_id, error=error)

    async def _load_narratives(self, head: SessionHead) -> list[MemoryEntry]:
        """Return the narratives of a branch without those from another session, which are about other turns."""
        found = await load_path_entries(self._store, head, Chain.NARRATIVE)
        return [entry for entry in found if COPIED_FROM not in entry.metadata]

    async def _load_proposed(self, head: SessionHead) -> list[MemoryEntry]:
        """Return all entries proposed on a branch, decided or not, because they are not proposed again."""
        return proposed_entries(await load_proposals(self._store, head.session_id, head.branch_id))

    async def _keep(self, session_id: str, entries: Sequence[MemoryEntry], *, review: bool) -> int:
        """Write entries, or with `review` proposals to add them; return how many are new.

        An end of a fact is not proposed; it is written when a person accepts the later fact.
        """
        if review:
            entries = [each for each in entries if each.kind != FACT_ENDED]
        if not entries:
            return 0
        async with self._hold(session_id):
            if not review:
                return await self._store.append_entries(session_id, entries)
            author = "" if self._model is None else self._model.model
            for entry in entries:
                await self._store.put_evidence(session_id, propose_entry(entry, author, self._clock.now()))
            return len(entries)
