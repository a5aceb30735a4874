"""ContextEngine: joins the parts (seed 002 section 6.7; spec 2). Only the engine writes to the store.

The steps of one turn: load the window, plan, run Stream A beside Stream B, build one prompt inside one budget, record it in one
transaction. Nothing is written before the whole turn is complete, so a turn that fails leaves nothing behind.

Calls on one session are serial: by a lock within the process and, where `EngineParts.locks` is given, by one among processes.
A writer without the lock is noticed by the session's version; the decision is then made once more on what it wrote.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from jacquard.adapters.observe.bus import EventEmitter
from jacquard.adapters.observe.spans import Span
from jacquard.config.experiments import check_experiments, enrolled
from jacquard.config.input_limits import check_tool_result, check_user_message
from jacquard.config.sections import RuntimeConfig
from jacquard.core.errors import BudgetExceededError, ConfigError
from jacquard.core.model_calls import CallBook
from jacquard.memory.consolidate.consolidator import Consolidated, Consolidator, Progress, ignore_progress
from jacquard.memory.summarize.roller import SummaryRoller
from jacquard.pipeline.curation.deadline import CurationDeadline
from jacquard.pipeline.curation.history_prefetch import HistoryPrefetcher
from jacquard.pipeline.record.commit import CommitResult
from jacquard.pipeline.record.events import emit_error, emit_usage
from jacquard.pipeline.record.evidence import TakenResult, take_result
from jacquard.pipeline.record.prepared_turn import PreparedTurn, turn_from_record
from jacquard.pipeline.record.tools import check_tasks, record_model_usage, record_tool_call
from jacquard.pipeline.weaving.assemble import MESSAGE_OVERHEAD_TOKENS
from jacquard.pipeline.worlds import WorldSource
from jacquard.turns.commits import ReplyCommitter, retry_on_conflict
from jacquard.turns.compose import EngineParts, TurnComposer, history_limits
from jacquard.turns.deferred_usage import DeferredUsage
from jacquard.turns.prepare import SPARE_MESSAGES, TurnPreparer
from jacquard.turns.session_lock import SessionLock
from jacquard.turns.tool_pairs import check_pairs, tail_tokens
from mnemosyne.chains.session_start import session_start
from mnemosyne.core.errors import ContextEngineError, SessionExistsError, SessionNotFoundError
from mnemosyne.schema.document import ModelUsage, Summary, Task, ToolCall
from mnemosyne.schema.event import EventType
from mnemosyne.schema.ingest import IngestOptions
from mnemosyne.schema.record import PutResult
from mnemosyne.schema.session import Message, Ref, Role, SessionHead
from mnemosyne.schema.world import WorldPack


class ContextEngine:
    """Prepares and commits turns, and records what a host did between. Use it as an async context manager: late work of
    Stream B lives as long as it does. ConfigError for experiments that cannot be.

    Calls on one session are serial; different sessions never wait for each other.
    """

    def __init__(self, parts: EngineParts, config: RuntimeConfig | None = None) -> None:
        self._parts = parts
        self._config = config or RuntimeConfig()
        check_experiments(self._config)
        self._session_lock = SessionLock(parts.locks)
        self._emitter = EventEmitter(parts.events, parts.clock).with_tags(
            self._config.tags, enabled=self._config.observability.emit_events
        )
        self._worlds = WorldSource(parts.store, parts.worlds, parts.noted)
        self._replies = ReplyCommitter(parts, self._emitter, self._config, self._worlds)
        self._tasks: TaskGroup
        self._race: CurationDeadline
        self._roller: SummaryRoller
        self._consolidator: Consolidator
        self._talk: HistoryPrefetcher | None = None
        self._preparer: TurnPreparer | None = None

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._race = CurationDeadline(self._tasks)
        parts = self._parts
        self._roller = SummaryRoller(
            parts.store,
            parts.estimator,
            parts.clock,
            parts.summarizer,
            self._tasks,
            self._session_lock.acquire,
            self._emitter,
        )
        self._consolidator = Consolidator(
            parts.store,
            parts.consolidator,
            parts.estimator,
            parts.clock,
            self._session_lock.acquire,
            self._worlds,
            self._emitter,
        )
        self._talk = None if parts.ahead is None else HistoryPrefetcher(parts.store, parts.ahead, self._tasks)
        late = DeferredUsage(parts.store, parts.estimator.estimate, self._session_lock.acquire, self._emitter)
        drafter = TurnComposer(parts, self._race, late)
        self._preparer = TurnPreparer(parts, self._tasks, drafter, self._roller, self._worlds)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel late work; an error of the caller's passes through as it is, not wrapped in a group."""
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)

    async def settle(self, seconds: float) -> bool:
        """Wait at most `seconds` for late work of Stream B and for what is made behind turns; True when none is left."""
        self._require_open()
        with anyio.move_on_after(seconds):
            await self._race.idle()
            await self._roller.idle()
            await self._consolidator.idle()
            if self._talk is not None:
                await self._talk.idle()
            return True
        return False

    @property
    def worlds(self) -> WorldSource:
        """The packs of this engine's sessions, from the store."""
        return self._worlds

    async def start_session(self, session_id: str, world: WorldPack) -> SessionHead:
        """Create a session from a world, which becomes the present version of it in the store; SessionExistsError."""
        await self._worlds.bring(world)
        return await self._parts.store.create_session(session_start(session_id, world, self._parts.clock.now()))

    async def prepare_turn(
        self,
        session_id: str,
        user_message: Message | str,
        config: RuntimeConfig | None = None,
        *,
        turn_id: str | None = None,
        branch_id: str | None = None,
    ) -> PreparedTurn:
        """Return the prompt of one turn with its receipt.

        The same turn id (or the same input after the same turn) with the same configuration is answered from its record.
        Raises InputTooLargeError, SessionNotFoundError, WorldUnavailableError where the pack of its world is missing,
        BudgetExceededError, TemplateError, LayoutError, StoreError; then nothing was written of the turn.
        """
        message = _user_message(user_message)
        turn_config = enrolled(config or self._config, session_id)
        emitter = self._emitter if config is None else self._emitter_of(config)
        calls = CallBook()

        async def prepare(*degradations: str) -> PreparedTurn:
            return await self._require_open().prepare(
                session_id, message, turn_config, turn_id, branch_id, emitter, degradations, calls
            )

        async with self._work("prepare_turn", session_id, emitter, turn_id) as span:
            check_user_message(message.content, turn_config.limits)
            await self._begin(session_id)
            turn = await retry_on_conflict(prepare, session_id, emitter)
            span.put(
                {
                    "jacquard.turn.id": turn.turn_id,
                    "jacquard.prompt.tokens": turn.report.budget.used_tokens,
                }
            )
            return turn

    async def assemble(
        self, session_id: str, turn_id: str, tail: Sequence[Mapping[str, Any]] = ()
    ) -> list[dict[str, Any]]:
        """Return the prompt of a prepared turn again, followed by the host's own tool calls and results, untouched.

        The store is only read. ToolPairError for half of a tool call; BudgetExceededError when prompt and tail together pass
        what the model takes (`budget.reserved_tail_tokens` keeps room for tails).
        """
        record = await self._parts.store.turn(session_id, turn_id)
        prepared = turn_from_record(record, 0)
        check_pairs(tail)
        self._check_tail(prepared, tail)
        return [*({"role": m.role, "content": m.content} for m in prepared.messages), *(dict(item) for item in tail)]

    async def commit_assistant_message(
        self,
        session_id: str,
        assistant_message: Message | str,
        *,
        turn_id: str | None = None,
        refs: Sequence[Ref] = (),
    ) -> CommitResult:
        """Commit the model's reply to the pending turn (or `turn_id`): its text, and its ops all or none.

        A turn that is committed already is answered with what its commit told. Raises TurnNotFoundError when nothing is
        pending, TurnNotPendingError when another input took its place, EvidenceNotFoundError for a ref that leads nowhere,
        WorldUnavailableError where the pack of its world is missing, InputTooLargeError for a reply that is too long; then the
        turn stays pending.
        """
        reply = assistant_message
        if isinstance(reply, str):
            reply = Message(role=Role.ASSISTANT, content=reply)
        async with self._work("commit_assistant_message", session_id, self._emitter, turn_id):
            result = await self._replies.commit(session_id, reply, turn_id, tuple(refs))
        self._start_background_work(session_id, result)
        return result

    async def commit_assistant_chunk(
        self,
        session_id: str,
        chunk: str,
        chunk_index: int,
        *,
        turn_id: str | None = None,
        message_id: str = "",
    ) -> None:
        """Take in a chunk of the reply to the pending turn (or `turn_id`); nothing is written before it is whole.

        Chunks may come in any order and more than once. `message_id` tells replies to one turn apart. A reply that grows no
        more for `chunks.expire_seconds` is forgotten. ChunkConflictError, TurnNotFoundError when nothing is pending;
        InputTooLargeError for a chunk with which the reply would be too long (those before it are kept).
        """
        await self._replies.add(session_id, turn_id, message_id, chunk_index, chunk)

    async def finalize_assistant_message(
        self, session_id: str, refs: Sequence[Ref] = (), *, turn_id: str | None = None, message_id: str = ""
    ) -> CommitResult:
        """Join the chunks of a reply and commit it; they are let go once it is written.

        MissingChunksError when a chunk never came or none is held; else as `commit_assistant_message`.
        """
        async with self._work("finalize_assistant_message", session_id, self._emitter, turn_id):
            result = await self._replies.finish(session_id, turn_id, message_id, tuple(refs))
        self._start_background_work(session_id, result)
        return result

    async def abort_assistant_message(
        self, session_id: str, *, turn_id: str | None = None, message_id: str = ""
    ) -> int:
        """Forget the chunks of a reply; return how many there were. The turn stays pending."""
        return await self._replies.abort(session_id, turn_id, message_id)

    async def record_tool_call(
        self,
        session_id: str,
        tool_call: ToolCall,
        result_evidence_ids: Sequence[str] = (),
        *,
        result: str | None = None,
        options: IngestOptions | None = None,
    ) -> PutResult:
        """Write a tool call, linked both ways with the evidence of its results, and with its task where it names one.

        The same id again replaces the call. Its arguments are redacted where the engine has a redactor. A `result` is taken
        in as evidence first (`jacquard.pipeline.record.evidence`); what the prompt had shown is no news and becomes none.
        EvidenceNotFoundError, SessionNotFoundError; ConfigError for a result where the engine has no ingestor;
        InputTooLargeError for one that is too long, and then the call is not written either.
        """
        async with self._work("record_tool_call", session_id, self._emitter):
            check_tool_result(result or "", self._config.limits)
            taken = await self._ingest_result(session_id, tool_call, result, options)
            evidence_ids = (*result_evidence_ids, *taken.evidence_ids)
            done, degraded = await record_tool_call(
                self._parts.store, session_id, tool_call, evidence_ids, self._parts.redactor
            )
            degraded = (*degraded, *taken.degradations)
        if result is not None:
            await self._emitter.emit(
                EventType.EVIDENCE_INGESTED,
                session_id,
                tool_call_id=tool_call.tool_call_id,
                evidence_ids=list(taken.evidence_ids),
                source="tool",
                redacted=list(taken.redacted),
                recalled=list(taken.recalled),
            )
        ids = {"tool_call_id": tool_call.tool_call_id, "task_id": tool_call.task_id}
        await self._emitter.emit(EventType.TOOL_CALLED, session_id, **ids, tool=tool_call.tool)
        await self._emitter.emit(
            EventType.TOOL_CALL_COMPLETED,
            session_id,
            **ids,
            tool=tool_call.tool,
            status=tool_call.status.value,
            duration_ms=tool_call.duration_ms,
        )
        for reason in degraded:
            await self._emitter.emit(EventType.DEGRADED, session_id, **ids, reason=reason)
        return done

    async def _ingest_result(
        self, session_id: str, call: ToolCall, result: str | None, options: IngestOptions | None
    ) -> TakenResult:
        if result is None:
            return TakenResult()
        if self._parts.ingestor is None:
            raise ConfigError("This engine has no ingestor; give EngineParts one, or store the result and name its id.")
        ingest_options = options or self._parts.ingest_options or IngestOptions()
        return await take_result(self._parts.store, self._parts.ingestor, session_id, call, result, ingest_options)

    async def record_model_usage(
        self,
        session_id: str,
        model_usage: ModelUsage,
        llm_output_evidence_id: str | None = None,
        *,
        turn_id: str | None = None,
    ) -> PutResult:
        """Write a model call, linked with the evidence of its answer and with its turn (default: the newest).

        What the provider reported corrects the token estimate of later turns; where it reported nothing, the estimate is
        written and marked as one (`extra.counted`). EvidenceNotFoundError, SessionNotFoundError, TurnNotFoundError.
        """
        async with self._work("record_model_usage", session_id, self._emitter, turn_id):
            done = await record_model_usage(
                self._parts.store, session_id, model_usage, llm_output_evidence_id, turn_id, self._parts.estimator
            )
        await emit_usage(self._emitter, session_id, turn_id, model_usage, done.version)
        return done

    async def consolidate(
        self,
        session_id: str,
        *,
        branch_id: str | None = None,
        chapter_ends: bool = False,
        progress: Progress = ignore_progress,
    ) -> Consolidated:
        """Turn what was played on a branch into memory: turn summaries, events, narratives over many turns (spec 2).

        It never holds a turn up, can be stopped and called again, and does nothing twice. `chapter_ends`: a chapter ends with
        the head. ConfigError without a model (`consolidation.model`, else that of `summary`); SessionNotFoundError.
        """
        self._require_open()
        if not self._consolidator.is_able:
            raise ConfigError(
                "Consolidation needs a model: set consolidation.model (or summary.model) as litellm names it."
            )
        config = self._config.consolidation
        return await self._consolidator.consolidate(
            session_id, config, branch_id=branch_id, chapter_ends=chapter_ends, progress=progress
        )

    async def summarize(self, session_id: str, *, branch_id: str | None = None) -> Summary | None:
        """Sum up a branch now, all but its newest messages, whatever the triggers say (a session from elsewhere, say).

        None when nothing is new. SummarizerError, SessionNotFoundError.
        """
        self._require_open()
        async with self._work("summarize", session_id, self._emitter):
            return await self._roller.roll(session_id, self._config, branch_id)

    async def upsert_tasks(self, session_id: str, tasks: Sequence[Task]) -> PutResult:
        """Write or replace tasks of the to-do list by id; ConfigError for one that waits for an unknown task or for itself."""
        async with self._work("upsert_tasks", session_id, self._emitter):
            check_tasks(tasks, await self.tasks(session_id))
            done = await self._parts.store.upsert_tasks(session_id, tasks)
        await self._emitter.emit(
            EventType.PERSISTED, session_id, what="tasks", version=done.version, tasks=[t.task_id for t in tasks]
        )
        return done

    async def tasks(self, session_id: str) -> tuple[Task, ...]:
        """Return the to-do list; SessionNotFoundError."""
        return (await self._parts.store.window(session_id, message_limit=1)).tasks

    def _start_background_work(self, session_id: str, result: CommitResult) -> None:
        """Start the background work that follows a committed turn; nothing waits for it."""
        if self._preparer is not None:
            self._roller.begin_ahead(
                session_id, result.turn_id, self._config, history_limits(self._config), SPARE_MESSAGES
            )
            self._consolidator.begin(self._tasks, session_id, result.turn_id, self._config.consolidation)
            if self._talk is not None and self._config.curation.enabled:
                self._talk.begin(session_id, result.turn_id)

    def _require_open(self) -> TurnPreparer:
        if self._preparer is None:
            raise ConfigError("Open the engine first: `async with ContextEngine(...) as engine`.")
        return self._preparer

    def _emitter_of(self, config: RuntimeConfig) -> EventEmitter:
        return EventEmitter(self._parts.events, self._parts.clock).with_tags(
            config.tags, enabled=config.observability.emit_events
        )

    @asynccontextmanager
    async def _work(
        self, name: str, session_id: str, emitter: EventEmitter, turn_id: str | None = None
    ) -> AsyncIterator[Span]:
        """Hold a session for one call, in a span of its own; an error that leaves it is emitted."""
        with self._parts.tracing.span(f"jacquard.{name}", {"gen_ai.conversation.id": session_id}) as span:
            try:
                async with self._session_lock.acquire(session_id):
                    yield span
            except ContextEngineError as error:
                await emit_error(emitter, session_id, turn_id, error)
                raise

    async def _begin(self, session_id: str) -> None:
        """Start a session with its first turn, where the engine has a world to start from."""
        if self._parts.opening is None:
            return
        try:
            await self._parts.store.head(session_id)
        except SessionNotFoundError:
            # Another process may be sooner; then this one goes on with its session.
            with suppress(SessionExistsError):
                await self.start_session(session_id, self._parts.opening)

    def _check_tail(self, prepared: PreparedTurn, tail: Sequence[Mapping[str, Any]]) -> None:
        if not tail:
            return
        budget = prepared.report.budget
        limit = budget.limit_tokens + budget.tail_tokens
        cost = tail_tokens(tail, self._parts.estimator.estimate, MESSAGE_OVERHEAD_TOKENS)
        if budget.used_tokens + cost > limit:
            blocks = (("tail", cost), ("prompt", budget.used_tokens))
            raise BudgetExceededError(limit, budget.used_tokens + cost, blocks)


def _user_message(message: Message | str) -> Message:
    made = Message(role=Role.USER, content=message) if isinstance(message, str) else message
    if not made.content.strip():
        raise ConfigError("The user message is empty; give the words that the turn should answer.")
    return made
