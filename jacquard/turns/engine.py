"""Prepares and commits turns (class `ContextEngine`). Only the engine writes to the store.

`_prepare` shows one turn from start to end: load the session, plan, run Stream A (state and history) and Stream B
(memories) at the same time, compose one prompt within one budget, record the turn in one transaction. Each step is a
module of this folder. Nothing of a turn is written before its prompt is complete, so a turn that fails leaves nothing
behind.

Calls on one session run one after another: a lock orders them within the process, and `EngineParts.locks`, if given,
among processes. If a process without this lock writes to the session, the engine detects this by the session's version
number. Then the engine decides the turn once more, on the new version.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self

import anyio
from anyio import to_thread

from jacquard.adapters.observe.bus import EventEmitter
from jacquard.adapters.observe.spans import Span
from jacquard.config.experiments import apply_experiments, check_experiments, tags_of_session
from jacquard.config.input_limits import check_parts, check_tool_result, check_user_message
from jacquard.config.sections import LimitsConfig, RuntimeConfig
from jacquard.core.errors import BudgetExceededError, ConfigError
from jacquard.core.model_calls import CallBook
from jacquard.memory.consolidate.consolidator import ConsolidationResult, Progress, ignore_progress
from jacquard.memory.user_facts import UserFacts
from jacquard.pipeline.audience import find_audience, guard_message
from jacquard.pipeline.record.commit import CommitResult
from jacquard.pipeline.record.events import emit_error, emit_tool_call, emit_usage
from jacquard.pipeline.record.evidence import IngestedResult, find_turn_of_call, ingest_call_result, place_in_turn
from jacquard.pipeline.record.prepared_turn import (
    PreparedTurn,
    turn_from_record,
    with_attachments,
)
from jacquard.pipeline.record.tools import (
    check_tasks,
    check_tool_call,
    continue_tool_call,
    record_model_usage,
    record_tool_call,
)
from jacquard.pipeline.skeleton.history import count_loaded_messages
from jacquard.pipeline.skeleton.state_fit import StateLimit
from jacquard.pipeline.skeleton.stream import SkeletonStream, state_tokens_of
from jacquard.pipeline.weaving.tool_pairs import check_pairs, check_tail_fits
from jacquard.pipeline.worlds import WorldSource
from jacquard.templating.profiles import AUTO, PROFILE
from jacquard.turns.background import BackgroundWork
from jacquard.turns.compose import PromptComposer
from jacquard.turns.curate import DeferredUsage, TurnCurator
from jacquard.turns.host.own_task import OwnTask
from jacquard.turns.host.own_words import mask_secrets
from jacquard.turns.host.session_lock import SessionLock
from jacquard.turns.host.values import ChatMessage, to_message, to_reply, to_tool_call, to_user_message
from jacquard.turns.load import ProfileSource, TurnLoader
from jacquard.turns.parts import EngineParts
from jacquard.turns.record import record_turn
from jacquard.turns.streams import StreamRunner
from jacquard.turns.turn_log import FinishTurn, TurnLog, TurnRequest
from jacquard.turns.writing.branches import (
    MESSAGE_CHARS,
    RetoldTurn,
    adopt_messages,
    edit_message,
    find_answered_turn,
    find_input,
    open_branch,
    retell,
)
from jacquard.turns.writing.commits import ReplyCommitter, retry_on_conflict
from jacquard.turns.writing.continuation import Continuation, continue_session, find_continued
from jacquard.turns.writing.repair import RepairResult, repair_state
from mnemosyne.chains.facts import facts_at
from mnemosyne.chains.session_start import session_start
from mnemosyne.core.errors import ContextEngineError, SessionExistsError, SessionNotFoundError
from mnemosyne.core.exact_tokens.messages import MessageTokenEstimator
from mnemosyne.core.off_loop import calculate, on_loop, run_off_loop
from mnemosyne.evidence import SessionIngestor
from mnemosyne.protocols import EvidenceIngestor
from mnemosyne.schema.document import ModelUsage, Summary, Task, ToolCall, ToolCallStatus
from mnemosyne.schema.event import EventType
from mnemosyne.schema.evidence import EvidenceLinks
from mnemosyne.schema.ingest import IngestOptions
from mnemosyne.schema.memory import UserFact, profile_session_id
from mnemosyne.schema.record import PutResult, TurnRecord
from mnemosyne.schema.session import Message, Ref, Role, SessionHead
from mnemosyne.schema.world import WorldPack
from mnemosyne.stores.host import reachable_store
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class _OpenEngine:
    """State of an engine while it is open: the background work, and the steps of a turn that start some."""

    background: BackgroundWork
    loader: TurnLoader
    streams: StreamRunner


class ContextEngine:
    """Prepares and commits turns, and records what a host did between them.

    Use an engine in `async with`; leaving the block cancels its background work. Without `async with`, the engine opens
    with its first call, and the host must await `close` at the end. Calls on one session run one after another;
    different sessions never wait for each other.

        async with create_context_engine(store) as engine:
            turn = await engine.prepare_turn("s1", "Hello.")
            reply = await call_your_model(turn.messages)
            await engine.commit_assistant_message("s1", reply)

    Raises ConfigError if the configured experiments are not valid.
    """

    def __init__(self, parts: EngineParts, config: RuntimeConfig | None = None) -> None:
        self._given = parts
        self._parts = parts = replace(parts, store=reachable_store(parts.store))
        self._config = config or RuntimeConfig()
        check_experiments(self._config)
        self._session_lock = SessionLock(parts.locks)
        self._emitter = self._emitter_of(self._config)
        self._worlds = WorldSource(parts.store, parts.worlds)
        self._profiles = ProfileSource(parts.roots)
        redacts = self._config.redaction.enabled
        self._redactor = parts.redactor if redacts else None
        passes = self._config.redaction.on_failure == "pass_through"
        self._users = UserFacts(parts.store, parts.clock, self._redactor, pass_through=passes)
        self._replies = ReplyCommitter(parts, self._emitter, self._config, self._worlds)
        self._composer = PromptComposer(parts)
        evidence = parts.evidence_parts(redacts=redacts)
        self._skeletons = SkeletonStream(parts.automation, parts.store, parts.clock, parts.estimator.estimate, evidence)
        self._open: _OpenEngine | None = None
        self._own_task: OwnTask | None = None
        self._opening = anyio.Lock()

    async def __aenter__(self) -> Self:
        parts, hold = self._parts, self._session_lock.acquire
        background = BackgroundWork(parts, hold, self._session_lock.wait_until_free, self._worlds, self._emitter)
        await background.__aenter__()
        usage = DeferredUsage(parts.store, parts.estimator.estimate, hold, self._emitter)
        curator = TurnCurator(parts, background.deadline, usage)
        self._open = _OpenEngine(
            background=background,
            loader=TurnLoader(parts, background.tasks, background.roller, self._worlds, self._profiles),
            streams=StreamRunner(self._skeletons, curator, parts.tracing),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel background work. An error of the caller is passed on unchanged, not wrapped in an exception group."""
        opened, self._open = self._open, None
        if opened is not None:
            await opened.background.__aexit__(None, None, None)

    async def close(self) -> None:
        """Cancel background work of an engine that is used without `async with`. The next call opens the engine again."""
        task, self._own_task = self._own_task, None
        if task is not None:
            await task.close()

    async def _ensure_open(self) -> _OpenEngine:
        """Return the state of the open engine; an engine used without `async with` opens itself."""
        if self._own_task is None and self._open is not None:
            return self._open
        async with self._opening:
            if self._own_task is None or not self._own_task.is_running:
                self._own_task = OwnTask(self)
                await self._own_task.start()
        assert self._open is not None
        return self._open

    async def settle(self, seconds: float) -> bool:
        """Wait at most `seconds` for background work. Return whether all background work has ended."""
        background = (await self._ensure_open()).background
        with anyio.move_on_after(seconds):
            await background.wait_until_idle()
            return True
        return False

    @property
    def parts(self) -> EngineParts:
        """Parts of this engine. A host may read from `parts.store`, but only the engine writes to it."""
        return self._given

    @property
    def config(self) -> RuntimeConfig:
        """Configuration of all turns that are prepared without a `runtime_config`."""
        return self._config

    @property
    def emitter(self) -> EventEmitter:
        """Emitter of this engine's events. Each event has the tags (labels, such as the arms of experiments) of its
        session.
        """
        return self._emitter

    @property
    def worlds(self) -> WorldSource:
        """Source of the world packs of this engine's sessions."""
        return self._worlds

    async def start_session(self, session_id: str, world: WorldPack) -> SessionHead:
        """Create a session in `world` and return its head (the end of its first branch). The store keeps this pack as
        the present version of the world.

        If the settings name a profile (kind of agent), the session keeps this profile for later turns. Raises
        SessionExistsError if the id is taken. Raises ConfigError if there is no such profile.
        """
        return await self._start(session_id, world, self._config.profile)

    async def _start(self, session_id: str, world: WorldPack, profile: str) -> SessionHead:
        # Before anything is written: a session with an unknown profile could not be played.
        await self._profiles.load(profile, world)
        await self._worlds.store_pack(world)
        extra = {} if profile == AUTO else {PROFILE: profile}
        start = session_start(session_id, world, self._parts.clock.now(), extra=extra)
        return await self._parts.store.create_session(start)

    async def continue_session(
        self,
        session_id: str,
        new_session_id: str,
        *,
        memory_ids: Sequence[str] | None = None,
        author: str = "host",
        viewer: str | None = None,
    ) -> SessionHead:
        """Create a session that begins with memories of the old session `session_id`. Every prompt of the new session
        contains a summary of the old session.

        The new session has the world, owner and profile of the old one, and starts with the world's initial state and
        quests. `memory_ids` are the ids of the memories to copy (None: all). If `viewer` is given, only memories that
        this character may know are copied. Each copy names its source, and an erasure of the source erases the copy.
        `author` is recorded as the author of this request. Repeating the call returns the same session.

        Raises:
            SessionNotFoundError: if the old session does not exist.
            SessionExistsError: if a session with the new id exists that was not made by the same call.
            MemoryNotFoundError: if `memory_ids` contains an unknown id.
            ConfigError: if a requested memory is superseded, or the new id is empty.

        If an error is raised, nothing was written.
        """
        asked = Continuation(
            session_id=session_id,
            new_session_id=new_session_id,
            memory_ids=None if memory_ids is None else tuple(memory_ids),
            author=author,
            viewer=viewer,
        )
        store, roller = self._parts.store, (await self._ensure_open()).background.roller
        async with self._hold("continue_session", session_id, self._emitter):
            world_id = (await store.head(session_id)).world_id
            made = await find_continued(store, asked)
            if made is not None:
                return made
            world = await self._worlds.world(world_id)
            return await continue_session(store, roller, self._config, world, asked, self._parts.clock.now())

    async def prepare_turn(
        self,
        session_id: str,
        user_message: ChatMessage,
        runtime_config: RuntimeConfig | None = None,
        *,
        turn_id: str | None = None,
        branch_id: str | None = None,
        dry_run: bool = False,
        finish: FinishTurn | None = None,
    ) -> PreparedTurn:
        """Return the prompt of one turn with its receipt (the reasons for every block).

        A repeated call is answered from the stored record. A call counts as repeated if it has the same configuration,
        and either the same turn id or the same input after the same turn. Secrets in the message (keys, cards,
        passwords) are masked, and the receipt lists the masks (`report.redactions`).

        Args:
            session_id: id of the session.
            user_message: message to answer.
            runtime_config: configuration of this turn (None: the engine's).
            turn_id: id of the turn (None: derived from session and input).
            branch_id: branch of the turn (None: the active one).
            dry_run: write nothing, not even a missing session.
            finish: completes the receipt before it is written, for a host whose model call contains more than this prompt.

        Raises:
            InputTooLargeError: if the message is too long.
            SessionNotFoundError: if the session does not exist and the engine has no world for new sessions.
            BudgetExceededError: if the blocks that must be kept do not fit into the budget.
            TemplateError: if a template cannot be rendered.
            LayoutError: if the layout is missing or not valid.
            AssemblerError: if an assembler of the host breaks its rules.
            WorldUnavailableError: if the pack of the session's world is missing.
            RedactionError: if the message cannot be searched for secrets.
            StoreError: if the store cannot be read or written.

        If an error is raised, nothing of the turn was written.
        """
        if dry_run:
            async with self._parts.overlay() as parts, ContextEngine(parts, self._config) as engine:
                turn = await engine.prepare_turn(
                    session_id, user_message, runtime_config, turn_id=turn_id, branch_id=branch_id, finish=finish
                )
            (await self._ensure_open()).background.follow_turn(turn.report)
            return turn
        message = to_user_message(user_message)

        async def find_request(config: RuntimeConfig) -> TurnRequest:
            return TurnRequest(
                session_id=session_id, message=message, config=config, turn_id=turn_id, branch_id=branch_id
            )

        return await self._answer(session_id, find_request, runtime_config, turn_id, finish)

    async def _answer(
        self,
        session_id: str,
        find_request: Callable[[RuntimeConfig], Awaitable[TurnRequest]],
        runtime_config: RuntimeConfig | None,
        turn_id: str | None = None,
        finish: FinishTurn | None = None,
    ) -> PreparedTurn:
        """Lock the session, and prepare the turn that `find_request` returns then."""
        config = apply_experiments(runtime_config or self._config, session_id)
        emitter = self._emitter if runtime_config is None else self._emitter_of(runtime_config)
        # Shared by both attempts, because the model calls of an attempt with a conflict cost something too.
        calls = CallBook()

        running = await self._ensure_open()

        async def prepare(request: TurnRequest, *degradations: str) -> PreparedTurn:
            mark = self._parts.store.damage_log.mark()
            log = TurnLog(emitter=emitter, calls=calls, degradations=list(degradations), damage_mark=mark)
            return await self._prepare(running, request, log, finish)

        async def answer() -> PreparedTurn:
            asked = await find_request(config)
            said = await self._keep_secrets_out(asked.message, config)
            request = replace(asked, message=replace(said, at=said.at or self._parts.clock.now()))
            # Before the session is created, so that a refused input leaves nothing behind.
            check_user_message(request.message.content, config.limits)
            check_parts(request.message, config.limits)
            await self._start_missing_session(session_id, config.profile)
            return await retry_on_conflict(partial(prepare, request), session_id, emitter)

        async with self._watch("prepare_turn", session_id, emitter, turn_id) as span:
            turn = await self._session_lock.run(session_id, answer)
            span.put({"jacquard.turn.id": turn.turn_id, "jacquard.prompt.tokens": turn.report.budget.used_tokens})
        running.background.follow_turn(turn.report)
        return turn

    async def _prepare(
        self, running: _OpenEngine, request: TurnRequest, log: TurnLog, finish: FinishTurn | None
    ) -> PreparedTurn:
        """Prepare one turn on the session's present version: load, plan, run both streams, compose, record.

        All of it is one piece of work in one thread. Only the streams run on the event loop, because they wait for models.
        """
        log.degradations += running.background.consolidator.degradations(request.session_id)
        turn = await running.loader.load(request, log)
        stored = await running.loader.find_stored_turn(turn, is_named=request.turn_id is not None)
        if stored is not None:
            return with_attachments(turn_from_record(stored, turn.window.head.version), turn.window, turn.message)
        turn = await running.loader.plan(turn, log, request.trigger)
        compose_ahead = partial(self._composer.compose_ahead, turn, log=log)
        limit = StateLimit(state_tokens_of(turn))
        skeleton, curation, prompt = await on_loop(running.streams.run, turn, limit.tokens, log, compose_ahead)
        with self._parts.tracing.span("jacquard.weave") as span:
            while prompt is None:
                try:
                    prompt = await self._composer.compose(turn, skeleton, curation, log)
                except BudgetExceededError as error:
                    # If the blocks that must stay do not fit, the state is cut further, as long as there is some of it.
                    limit.reduce(skeleton.state_tokens, error)
                    skeleton = await on_loop(self._skeletons.render, turn, limit.tokens)
            span.put({"jacquard.prompt.tokens": prompt.report.budget.used_tokens})
        if finish is not None:
            prompt = await run_off_loop(finish, prompt)
        log.stopwatch.lap("weave")
        audience = find_audience(turn, curation.entries, skeleton.results.audience)
        message = guard_message(turn.message, audience)
        return await record_turn(self._parts, prompt, turn, message, skeleton.anchors, log)

    async def assemble(self, session_id: str, turn_id: str, tail: Sequence[Mapping[str, Any]] = ()) -> list[Any]:
        """Return the prompt of an already prepared turn, followed by `tail`: the host's tool calls and results,
        unchanged.

        The store is only read.

        Raises:
            ToolPairError: if `tail` contains a call without its result, or a result without its call.
            BudgetExceededError: if prompt and tail together exceed the model's limit. The setting
                `budget.reserved_tail_tokens` reserves tokens for tails.
            ConfigError: if the turn was imported and so has no prompt.
        """
        record = await self._parts.store.turn(session_id, turn_id)
        if record.prompt is None:
            raise ConfigError(
                f"Turn {turn_id!r} was imported: no prompt was made for it. Name a turn that was prepared."
            )
        limit = count_loaded_messages(self._config)
        window = await self._parts.store.window(session_id, message_limit=limit, branch_id=record.branch_id)
        prepared = with_attachments(turn_from_record(record, 0), window, find_input(record))
        check_pairs(tail)
        budget, estimator = prepared.report.budget, self._parts.estimator
        # A tokenizer's file may be read.
        await to_thread.run_sync(check_tail_fits, tail, budget, estimator, self._config.model_hint)
        return [*prepared.to_openai(), *(dict(item) for item in tail)]

    async def estimate_messages(self, messages: Sequence[Any], model_hint: str | None = None) -> int:
        """Return the number of tokens of `messages`, by this engine's estimator.

        A message is an object or a mapping with `role` and `content`. `model_hint` is the model for which the tokens
        are counted (None: the model in the settings). The tokenizer of this model is used if it is available.
        """
        own, hint = self._parts.estimator, model_hint or self._config.model_hint
        counter = own if hasattr(own, "estimate_messages") else MessageTokenEstimator(own)
        return int(await to_thread.run_sync(counter.estimate_messages, messages, hint))

    async def commit_assistant_message(
        self,
        session_id: str,
        assistant_message: ChatMessage,
        refs: Sequence[Ref] | None = None,
        *,
        turn_id: str | None = None,
    ) -> CommitResult:
        """Commit the model's reply to the turn `turn_id` (None: the pending turn). The text is stored, and either all
        ops in the reply are applied or none.

        Ops are the changes of the state that the reply asks for. If the turn is committed already, the result of the
        earlier commit is returned. `refs` are the pieces of evidence that the reply cites.

        Raises:
            TurnNotFoundError: if no turn is pending.
            TurnNotPendingError: if another input replaced the turn.
            EvidenceNotFoundError: if one of `refs` points to evidence that the session does not have.
            WorldUnavailableError: if the pack of the session's world is missing.
            InputTooLargeError: if the reply is too long.

        If an error is raised, the turn stays pending.
        """
        reply = to_reply(assistant_message)
        commit = partial(self._replies.commit, session_id, reply, turn_id, tuple(refs or ()))
        async with self._watch("commit_assistant_message", session_id, self._emitter, turn_id):
            result = await self._session_lock.run(session_id, commit)
        (await self._ensure_open()).background.follow_commit(session_id, result.turn_id, self._config)
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
        """Store one chunk of the reply to the turn `turn_id` (None: the pending turn). `chunk_index` is the place of
        the chunk in the reply, counted from 0.

        The turn contains the reply only after `finalize_assistant_message`, which any process may call. Chunks may come
        in any order and more than once. Each chunk is one write to the database, so join several tokens in one chunk.
        `message_id` distinguishes several replies to one turn.

        A reply that gets no new chunk for `chunks.expire_seconds` is dropped. A session keeps at most eight unfinished
        replies. If there are more, the reply that has waited longest for a new chunk is dropped.

        Raises ChunkConflictError if another text has this index already, or if the index is not valid. Raises
        TurnNotFoundError if the turn is unknown or none is pending. Raises InputTooLargeError if the chunk makes the
        reply too long; the earlier chunks are kept.
        """
        await self._replies.add(session_id, turn_id, message_id, chunk_index, chunk)

    async def finalize_assistant_message(
        self, session_id: str, refs: Sequence[Ref] | None = None, *, turn_id: str | None = None, message_id: str = ""
    ) -> CommitResult:
        """Join the chunks of a reply, commit the reply, and return the result. The chunks are dropped when the reply
        has been written.

        `refs`, `turn_id` and `message_id` are those of `commit_assistant_message` and `commit_assistant_chunk`. Raises
        MissingChunksError if a chunk is missing or if there are no chunks. Raises the errors of
        `commit_assistant_message` too.
        """
        finish = partial(self._replies.finish, session_id, turn_id, message_id, tuple(refs or ()))
        async with self._watch("finalize_assistant_message", session_id, self._emitter, turn_id):
            result = await self._session_lock.run(session_id, finish)
        (await self._ensure_open()).background.follow_commit(session_id, result.turn_id, self._config)
        return result

    async def abort_assistant_message(
        self, session_id: str, *, turn_id: str | None = None, message_id: str = ""
    ) -> int:
        """Drop the chunks of a reply to the turn `turn_id` (None: the pending turn) and return the number of dropped
        chunks. The turn stays pending.
        """
        return await self._replies.abort(session_id, turn_id, message_id)

    def ingestor_of(self, session_id: str) -> SessionIngestor:
        """Return the ingestor that stores texts from outside as evidence of a session.

        If the links of a text name a turn, the evidence belongs to this turn. Then the evidence is found only on
        branches that contain the turn, and only for viewers who may know the turn. Otherwise the evidence belongs to the
        session. Raises ConfigError if the engine has no ingestor.
        """

        async def place(links: EvidenceLinks, metadata: Mapping[str, Any]) -> tuple[EvidenceLinks, Mapping[str, Any]]:
            return place_in_turn(await self._parts.store.turn(session_id, str(links.turn_id)), links, metadata)

        return SessionIngestor(self._require_ingestor(), session_id, place)

    async def record_tool_call(
        self,
        session_id: str,
        tool_call: ToolCall,
        result_evidence_ids: Sequence[str] | None = None,
        *,
        result: str | None = None,
        options: IngestOptions | None = None,
    ) -> PutResult:
        """Store a tool call with links to the evidence of its results, and to its task if it names one.

        The call belongs to the turn in `extra.turn_id`, else to the pending turn. Its results are known only on the
        branch of this turn, and only to viewers who may know the turn. The result of a call outside of every turn
        belongs to the session.

        A running call is recorded twice under one id: first with the status RUNNING, then with its end. Fields that the
        end does not state are taken from the start. If the end states no duration, the duration is the time between
        both records. Any other call replaces a stored call with the same id.

        The arguments are redacted unless the settings switch this off. `result` is the text of the result; it is first
        stored as evidence with `options` (`jacquard.pipeline.record.evidence`). Text of the result that the prompt
        showed already is not stored again.

        Raises EvidenceNotFoundError if the session lacks one of the results. Raises SessionNotFoundError if the session
        does not exist. Raises ConfigError if the call cannot be stored, or if `result` is given and the engine has no
        ingestor. Raises InputTooLargeError if the result is too long. If an error is raised, nothing was written.
        `result_evidence_ids` are the ids of evidence that contains results of the call (None: there is none).
        """
        async with self._hold("record_tool_call", session_id, self._emitter):
            named = tuple(result_evidence_ids or ())
            tool_call = await check_tool_call(self._parts.store, session_id, to_tool_call(tool_call), named, result)
            check_tool_result(result or "", self._config.limits)
            if options is not None and options.dry_run:
                raise ConfigError("A tool call has no dry run; leave `dry_run` out, or ask `ingest` for it.")
            if tool_call.status is ToolCallStatus.RUNNING and (named or result is not None):
                raise ConfigError(f"Tool call {tool_call.tool_call_id!r} is running; give its result with its end.")
            now = self._parts.clock.now()
            continued = await continue_tool_call(self._parts.store, session_id, tool_call, now)
            if continued.is_known:
                return PutResult(version=(await self._parts.store.head(session_id)).version)
            tool_call, store = continued.call, self._parts.store
            turn = await find_turn_of_call(store, session_id, tool_call)
            taken = await self._ingest_result(session_id, tool_call, result, options, turn)
            evidence_ids = (*named, *taken.evidence_ids)
            done, degraded = await record_tool_call(store, session_id, tool_call, evidence_ids, self._redactor, turn)
            degraded = (*degraded, *taken.degradations)
        shown = None if result is None else taken
        await emit_tool_call(self._emitter, session_id, tool_call, shown, degraded, was_begun=continued.was_begun)
        return done

    async def _ingest_result(
        self,
        session_id: str,
        call: ToolCall,
        result: str | None,
        options: IngestOptions | None,
        turn: TurnRecord | None,
    ) -> IngestedResult:
        if result is None:
            return IngestedResult()
        ingestor = self._require_ingestor()
        ingest_options = options or self._parts.ingest_options or IngestOptions()
        return await ingest_call_result(self._parts.store, ingestor, session_id, call, result, ingest_options, turn)

    def _require_ingestor(self) -> EvidenceIngestor:
        if self._parts.ingestor is None:
            raise ConfigError("This engine has no ingestor; give EngineParts one, or store the result and name its id.")
        return self._parts.ingestor

    async def record_model_usage(
        self,
        session_id: str,
        model_usage: ModelUsage,
        llm_output_evidence_id: str | None = None,
        *,
        turn_id: str | None = None,
    ) -> PutResult:
        """Store a model call with links to its turn (`turn_id`; None: the pending turn, else the newest) and to the
        evidence of its answer (`llm_output_evidence_id`; None: there is none).

        The provider's token counts correct the estimates of later turns. If the call has none, the estimate is stored
        and marked as an estimate (`extra.counted`). Raises EvidenceNotFoundError, SessionNotFoundError or
        TurnNotFoundError if the session lacks this evidence, does not exist, or lacks the turn `turn_id`.
        """
        async with self._hold("record_model_usage", session_id, self._emitter, turn_id):
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
    ) -> ConsolidationResult:
        """Make memories from the past turns of a branch: turn summaries, events, and narratives over many turns.

        No turn waits for this work. The work can be stopped and called again; what is done is not done twice. If
        `chapter_ends` is true, a chapter of the story ends with the newest turn. `branch_id` is the branch (None: the
        active one), and `progress` is called during the work. Raises ConfigError if no model is configured
        (`consolidation.model`, else `summary.model`). Raises SessionNotFoundError if the session does not exist.
        """
        consolidator = (await self._ensure_open()).background.consolidator
        if not consolidator.is_able:
            raise ConfigError(
                "Consolidation needs a model: set consolidation.model (or summary.model) as litellm names it."
            )
        config = self._config.consolidation
        return await consolidator.consolidate(
            session_id,
            config,
            branch_id=branch_id,
            chapter_ends=chapter_ends,
            review=self._config.memory.review,
            progress=progress,
        )

    async def summarize(self, session_id: str, *, branch_id: str | None = None) -> Summary | None:
        """Summarize a branch now, except for its newest messages, even if no summary is due (for example after an
        import).

        Return the new summary, or None if there is nothing new to summarize. Raises SummarizerError if the summarizer
        fails. Raises SessionNotFoundError if the session does not exist. `branch_id` is the branch (None: the active
        branch).
        """
        roller = (await self._ensure_open()).background.roller
        async with self._hold("summarize", session_id, self._emitter):
            return await roller.roll(session_id, self._config, branch_id)

    async def repair_state(
        self, session_id: str, ops: Sequence[Any], *, reason: str = "", branch_id: str | None = None
    ) -> RepairResult:
        """Apply the host's own ops (changes of the state), all or none, as a turn without messages.

        The ops may do what an author's rules forbid to a model, but types and limits still apply. A turn that waits for
        its reply is closed without a reply. `reason` is recorded with the repair.

        Raises ConfigError if there are no ops or they change nothing. Raises StateOpError if an op is refused. Raises
        SessionNotFoundError if the session does not exist. Raises VersionConflictError if another writer came first.
        `branch_id` is the branch (None: the active branch).
        """
        async with self._hold("repair_state", session_id, self._emitter):
            return await repair_state(
                self._parts, self._emitter, self._config.limits, session_id, ops, reason, branch_id
            )

    async def branches(self, session_id: str) -> tuple[SessionHead, ...]:
        """Return the head (newest committed turn) of every branch, the active branch first.

        Raises SessionNotFoundError if the session does not exist.
        """
        return await self._parts.store.branches(session_id)

    async def fork(self, session_id: str, turn_id: str | None, branch_id: str | None = None) -> SessionHead:
        """Open a branch after the committed turn `turn_id` (None: before the first turn), make the new branch active,
        and return its head. `branch_id` is the name of the new branch (None: a free name).

        Raises BranchExistsError if the name is taken. Raises TurnNotFoundError if the turn is unknown or not committed.
        Raises SessionNotFoundError if the session does not exist.
        """
        async with self._hold("fork", session_id, self._emitter, turn_id):
            return await open_branch(self._parts.store, session_id, turn_id, branch_id, "fork")

    async def switch(self, session_id: str, branch_id: str) -> SessionHead:
        """Make the branch `branch_id` active, and return its head.

        Raises BranchNotFoundError or SessionNotFoundError if the branch or the session does not exist.
        """
        async with self._hold("switch", session_id, self._emitter):
            return await self._parts.store.switch(session_id, branch_id)

    async def rollback(self, session_id: str, turn_id: str | None) -> SessionHead:
        """Go back to the committed turn `turn_id` (None: before the first turn) on a new branch, and return the head of
        this branch. Later turns stay on their branch.

        Raises the same errors as `fork`.
        """
        async with self._hold("rollback", session_id, self._emitter, turn_id):
            return await open_branch(self._parts.store, session_id, turn_id, None, "back")

    async def swipe(
        self,
        session_id: str,
        runtime_config: RuntimeConfig | None = None,
        *,
        turn_id: str | None = None,
        finish: FinishTurn | None = None,
    ) -> PreparedTurn:
        """Prepare the input of the committed turn `turn_id` (None: the newest) again, on a new branch, for another
        reply.

        To return to an earlier reply, call `switch`. `runtime_config` and `finish` are those of `prepare_turn`. Raises
        TurnNotFoundError if no turn is committed. Raises the errors of `prepare_turn` too.
        """
        find_request = partial(self._find_swipe, session_id, turn_id)
        return await self._answer(session_id, find_request, runtime_config, turn_id, finish)

    async def retry(self, session_id: str, runtime_config: RuntimeConfig | None = None) -> PreparedTurn:
        """Prepare the newest input again. This is the input of the pending turn. If no turn is pending, the call does
        the same as `swipe`. `runtime_config` is the configuration of the turn (None: the engine's).
        """

        async def find_request(config: RuntimeConfig) -> TurnRequest:
            pending = (await self._parts.store.window(session_id, message_limit=1)).pending
            said = None if pending is None else find_input(pending)
            if pending is None or said is None:
                return await self._find_swipe(session_id, None, config)
            # By its id: if a writer without the lock commits it meanwhile, its input is not sent again.
            return TurnRequest(session_id=session_id, message=said, config=config, turn_id=pending.turn_id)

        return await self._answer(session_id, find_request, runtime_config)

    async def _find_swipe(self, session_id: str, turn_id: str | None, config: RuntimeConfig) -> TurnRequest:
        """Open a branch for another reply to the input of a committed turn. The caller holds the session."""
        record = await find_answered_turn(self._parts.store, session_id, turn_id)
        head = await open_branch(self._parts.store, session_id, record.parent_id, None, "swipe")
        said = find_input(record)
        assert said is not None
        said = replace(said, message_id="")
        return TurnRequest(
            session_id=session_id, message=said, config=config, branch_id=head.branch_id, trigger="swipe"
        )

    async def edit_message(
        self, session_id: str, message_id: str, content: str, *, branch_id: str | None = None
    ) -> SessionHead:
        """Change the text of a message of the active branch to `content`, on a new branch that has copies of all later
        turns. Return the head of the new branch, which is named `branch_id` (None: a free name).

        State and ops stay unchanged. Secrets in the text are masked, and the receipts of later turns list the masks
        (`report.redactions`). Raises ConfigError if the message is unknown or the text is empty. Raises
        InputTooLargeError if the text is too long.
        """
        check_user_message(content, self._config.limits)
        said = await self._keep_secrets_out(Message(role=Role.USER, content=content))
        async with self._hold("edit_message", session_id, self._emitter):
            return await edit_message(self._parts.store, session_id, message_id, said, branch_id)

    async def retell(self, session_id: str, after: str | None, turns: Sequence[RetoldTurn]) -> SessionHead:
        """Open a branch after the committed turn `after` (None: before the first turn), write `turns` there, and return
        the head.

        A turn in `turns` is either a copy of a stored turn, with the ops of its reply, or has messages that were
        exchanged elsewhere. Raises TurnNotFoundError or SessionNotFoundError if the turn `after` or the session does
        not exist.
        """
        kept = []
        for turn in turns:
            known = set() if turn.copied is None else {each.content for each in turn.copied.messages}
            said = [each if each.content in known else await self._keep_secrets_out(each) for each in turn.messages]
            kept.append(replace(turn, messages=tuple(said)))
        async with self._hold("retell", session_id, self._emitter, after):
            return await retell(self._parts.store, session_id, after, kept)

    async def adopt_messages(self, session_id: str, messages: Sequence[ChatMessage]) -> SessionHead:
        """Store messages that were exchanged elsewhere, oldest first, with their roles, authors, times, ids and tool
        calls.

        The messages are added after the newest turn. Return the head after them. A missing session is started if the
        engine has a world for new sessions (`EngineParts.opening`). Repeating the call changes nothing.
        """
        read = await calculate(_read_adopted, messages, self._config.limits, size=MESSAGE_CHARS * len(messages))
        adopted = [await self._keep_secrets_out(message) for message in read]
        async with self._hold("adopt_messages", session_id, self._emitter):
            await self._start_missing_session(session_id, self._config.profile)
            head = await adopt_messages(self._parts.store, session_id, adopted)
        await self._emitter.emit(
            EventType.MESSAGE_APPENDED, session_id, what="adopted", version=head.version, messages=len(adopted)
        )
        return head

    async def remember(self, user_id: str, facts: Sequence[UserFact], *, dry_run: bool = False) -> tuple[UserFact, ...]:
        """Store facts about a user for the prompts of all their sessions, and return them in stored form.

        Texts are stored as written, except that secrets (keys, cards, passwords) are masked; `redacted` of a fact lists
        them. If `dry_run` is true, nothing is stored. A later fact of the same kind and topic ends an earlier fact. The
        earlier fact is kept as one that is no longer true. A session belongs to the user in its `meta.actor.user_id`,
        or else to the author of the message. An erasure of the user erases the facts.

        Raises ConfigError if a text or the id is empty, or if times are impossible. Raises RedactionError if a text
        cannot be searched for secrets. Raises InputTooLargeError if a text is too long.
        """
        for fact in facts:
            check_user_message(fact.text, self._config.limits)
        session_id = profile_session_id(user_id)
        async with self._hold("remember", session_id, self._emitter):
            stored = await self._users.remember(user_id, facts, dry_run=dry_run)
        if dry_run:
            return stored
        await self._emitter.emit(EventType.PERSISTED, session_id, what="facts", facts=len(stored))
        return stored

    async def user_facts(self, user_id: str, *, at: datetime | None = None) -> tuple[UserFact, ...]:
        """Return the facts about a user, oldest first: all of them, or only those that are true at the time `at`.

        The result is empty for an unknown user. Raises ConfigError if `at` has no time zone.
        """
        if at is not None and at.tzinfo is None:
            raise ConfigError("user_facts: `at` has no time zone; give an aware datetime.")
        facts = await self._users.facts(user_id)
        return facts if at is None else facts_at(facts, at)

    async def upsert_tasks(self, session_id: str, tasks: Sequence[Task]) -> PutResult:
        """Write or replace tasks of the to-do list by their ids. Raises ConfigError if a task depends on an unknown
        task or on itself.
        """
        async with self._hold("upsert_tasks", session_id, self._emitter):
            check_tasks(tasks, await self.tasks(session_id))
            done = await self._parts.store.upsert_tasks(session_id, tasks)
        await self._emitter.emit(
            EventType.PERSISTED, session_id, what="tasks", version=done.version, tasks=[t.task_id for t in tasks]
        )
        return done

    async def tasks(self, session_id: str) -> tuple[Task, ...]:
        """Return the to-do list of a session. Raises SessionNotFoundError if the session does not exist."""
        return (await self._parts.store.window(session_id, message_limit=1)).tasks

    async def _keep_secrets_out(self, message: Message, config: RuntimeConfig | None = None) -> Message:
        """Return a user's message without its secrets, any other unchanged; raises RedactionError if it cannot be searched."""
        settings, redactor = (config or self._config).redaction, self._parts.redactor
        if redactor is None or not settings.enabled:
            return message
        return await mask_secrets(message, redactor, pass_through=settings.on_failure == "pass_through")

    def _emitter_of(self, config: RuntimeConfig) -> EventEmitter:
        return EventEmitter(self._parts.events, self._parts.clock).with_tags_of(
            partial(tags_of_session, config), enabled=config.observability.emit_events
        )

    @asynccontextmanager
    async def _hold(
        self, name: str, session_id: str, emitter: EventEmitter, turn_id: str | None = None
    ) -> AsyncIterator[None]:
        """Lock a session for one call that `_watch` watches."""
        async with self._watch(name, session_id, emitter, turn_id), self._session_lock.acquire(session_id):
            yield

    @asynccontextmanager
    async def _watch(
        self, name: str, session_id: str, emitter: EventEmitter, turn_id: str | None = None
    ) -> AsyncIterator[Span]:
        """Run one call in a span with the session's tags; an error that leaves it is emitted as an event."""
        facts = {f"jacquard.tag.{tag}": value for tag, value in emitter.tags_of(session_id).items()}
        facts["gen_ai.conversation.id"] = session_id
        with self._parts.tracing.span(f"jacquard.{name}", facts) as span:
            try:
                yield span
            except ContextEngineError as error:
                await emit_error(emitter, session_id, turn_id, error)
                raise

    async def _start_missing_session(self, session_id: str, profile: str) -> None:
        """Start a session with its first turn, if the engine has a world for it."""
        if self._parts.opening is None:
            return
        try:
            await self._parts.store.head(session_id)
        except SessionNotFoundError:
            # Another process may start it first; then this one continues with that session.
            with suppress(SessionExistsError):
                await self._start(session_id, self._parts.opening, profile)


def _read_adopted(messages: Sequence[ChatMessage], limits: LimitsConfig) -> tuple[Message, ...]:
    adopted = tuple(to_message(message) for message in messages)
    for each in adopted:
        check_parts(each, limits)
    return adopted
