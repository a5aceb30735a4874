"""Defines the common adapter of all frameworks, which assigns each model call to a turn and records the actions of the
agent.

The module of a framework has hooks, which call the methods here, and a mapper, which converts the framework's values.
One user message is one turn of the engine. The turn is prepared once; all model calls for this message get the same
prompt.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import field, replace
from time import perf_counter
from typing import Any, TypeVar
from uuid import uuid4

import anyio

from jacquard import ContextEngine, PreparedTurn
from jacquard.adapters.observe.bus import add_tags
from jacquard.core.degradations import DegradationCode
from jacquard.integrations.core.bridge import EngineBridge
from jacquard.integrations.core.mapping import find_status, read_documents, write_result
from jacquard.integrations.core.prompt import prompt_of
from jacquard.integrations.core.protocol import FrameworkMapper
from jacquard.integrations.core.reporting import ReportBook
from jacquard.integrations.core.values import (
    AdapterOptions,
    AdapterReport,
    FailurePolicy,
    FoundDocument,
    InjectedPrompt,
    ModelAnswer,
    ModelRequest,
    SessionOwnerError,
    ToolOutcome,
    ToolResultError,
)
from jacquard.pipeline.record.prepared_turn import turn_from_record
from jacquard.sync import SyncEngine
from mnemosyne import (
    EvidenceLinks,
    EvidenceSource,
    EvidenceType,
    Message,
    ModelUsage,
    ModelUsageStage,
    ProviderKind,
    Role,
    SessionNotFoundError,
    SourceKind,
    Task,
    ToolCall,
    ToolProvider,
)
from mnemosyne.core.errors import DamagedRecordError, TurnNotFoundError
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.schema.event import EventType
from mnemosyne.schema.session import TurnStatus
from mnemosyne.values import dataclass

_log = open_log(__name__)
T = TypeVar("T")
MOST_TURNS = 1_000
"""Maximum number of turns that run at once. If there are more, the oldest turns are dropped, because their runs were
probably abandoned.
"""
CHUNKS_A_WRITE, SECONDS_BETWEEN_WRITES = 64, 0.2
"""Chunks of a stream are joined before a write, because each write waits for the disk.

The joined chunks are written when there are CHUNKS_A_WRITE of them, or SECONDS_BETWEEN_WRITES seconds after the last write.
"""
MOST_OWNERS = 10_000
"""Maximum number of sessions whose owners are cached."""
COUNTED, REPORTED_WITH_MORE = "counted", "reported_with_host_parts"
"""Field of a model usage, and its value if the provider's count includes more than our prompt.

Such a count also covers the agent's own system text and tools, so it cannot correct our token estimate.
"""


@dataclass(slots=True)
class _RunningTurn:
    """One user message, from its first model call to the final answer."""

    session_id: str
    key: str
    request: ModelRequest
    prompt: InjectedPrompt | None = None
    is_begun: bool = False
    calls: int = 0
    called_at: float = 0.0
    is_bare: bool = False
    chunks: list[str] = field(default_factory=list)
    written_chunks: int = 0
    writes: int = 0
    written_at: float = 0.0
    tools_since: dict[str, float] = field(default_factory=dict)
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def message_id(self) -> str:
        """Name of the model's present answer among those of the turn."""
        return f"m{self.calls}"


class ContextAdapter:
    """Adapter that is called by the hooks of one framework. It fulfils `AgentFrameworkAdapter`. In all methods,
    `turn_key` is the key of the turn (None: the turn of the session that began last).

    `engine` is a `ContextEngine` on the event loop of the agent, or an engine of `jacquard.sync`, which also works for
    frameworks with synchronous hooks. `mapper` converts the framework's values. `version` is the release of the
    framework. `restore` undoes what was changed to install the hooks; `detach` calls it. A hook that cannot await calls
    `run_blocking`.
    """

    def __init__(
        self,
        engine: ContextEngine | SyncEngine,
        mapper: FrameworkMapper,
        options: AdapterOptions | None = None,
        *,
        version: str = "",
        restore: Callable[[], None] | None = None,
    ) -> None:
        self.options = options or AdapterOptions()
        self._bridge = EngineBridge(engine)
        self._engine = self._bridge.engine
        self._mapper = mapper
        self._book = ReportBook(mapper.framework, version)
        self._restore = restore
        self._is_attached = True
        self._turns: OrderedDict[tuple[str, str], _RunningTurn] = OrderedDict()
        self._current: dict[str, str] = {}
        self._known_owners: dict[str, str | None] = {}

    @property
    def framework(self) -> str:
        """Name of the framework."""
        return self._mapper.framework

    @property
    def report(self) -> AdapterReport:
        """Counts of the adapter's actions so far, and its problems."""
        return self._book.report

    @property
    def is_attached(self) -> bool:
        """True while the adapter changes model calls; False after `detach`."""
        return self._is_attached

    def map_message(self, msg: Any) -> Message:
        """Return a message of the framework as a message of the session."""
        return self._mapper.map_message(msg)

    def map_tool_call(self, call: Any) -> ToolCall:
        """Return a tool call of the framework as a tool call of the session, under the framework's id."""
        return self._mapper.map_tool_call(call)

    def map_model_usage(self, usage: Any) -> ModelUsage:
        """Return the token counts of a model call of the framework."""
        return self._mapper.map_model_usage(usage)

    def run_blocking(self, work: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Call `work`, an async method of this adapter, from a hook that cannot await, and wait for the result.

        Raises ConfigError if the engine's event loop is not running, or runs in this thread.
        """
        return self._bridge.run_blocking(work, *args, **kwargs)

    def submit(self, work: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> Future[T]:
        """Start `work`, an async method of this adapter, from a hook that can neither await nor wait. Return its
        future. Several calls begin in the order in which they were submitted.
        """
        return self._bridge.submit(work, *args, **kwargs)

    def detach(self) -> None:
        """Stop changing model calls, and undo what was changed to install the hooks. A second call does nothing."""
        if self._is_attached:
            self._is_attached = False
            self._turns.clear()
            self._current.clear()
            if self._restore is not None:
                self._restore()

    async def on_user_message(self, session_id: str, request: ModelRequest) -> None:
        """Begin the turn of a user message, unless the turn is running here already.

        This method is called before a tool call too, because a run that was interrupted may continue with its tools.
        """
        if self._is_attached and self._find(session_id, request.turn_key) is None:
            await self._bridge.run(self._begin, session_id, request)

    async def on_before_model_call(self, session_id: str, request: ModelRequest) -> InjectedPrompt | None:
        """Return the input for a model call. Return None if the agent must continue without our prompt, because of
        `detach` or a failure of the engine.
        """
        if not self._is_attached:
            return None
        return await self._bridge.run(self._before_model_call, session_id, request)

    async def on_after_model_call(
        self, session_id: str, response: ModelAnswer, usage: Any | None = None, *, turn_key: str | None = None
    ) -> None:
        """Record the usage of a model call. If `usage` is None, the engine's own estimate is recorded."""
        if (turn := self._find(session_id, turn_key)) is not None:
            await self._bridge.run(self._after_model_call, turn, response, usage)

    async def on_tool_call_start(self, session_id: str, tool_call: Any, *, turn_key: str | None = None) -> None:
        """Record the start of a tool call."""
        if (turn := self._find(session_id, turn_key)) is not None:
            # A call that cannot be mapped is reported when it ends.
            with suppress(Exception):
                turn.tools_since[self._mapper.map_tool_call(tool_call).tool_call_id] = perf_counter()

    async def on_tool_call_end(
        self,
        session_id: str,
        tool_call: Any,
        result: ToolOutcome,
        *,
        turn_key: str | None = None,
        provider: ToolProvider | None = None,
    ) -> None:
        """Record a tool call with its status, duration and result.

        `provider` offers the tool. If it is None, the provider is the one that the mapper returns, else the framework.
        With the failure policy `closed`, raises ToolResultError if the result is neither text nor JSON.
        """
        if (turn := self._find(session_id, turn_key)) is not None:
            await self._bridge.run(self._after_tool_call, turn, tool_call, result, provider)

    async def on_chunk(self, session_id: str, text: str, *, turn_key: str | None = None) -> None:
        """Record a chunk of the answer that the model is writing now."""
        turn = self._find(session_id, turn_key)
        if turn is not None and turn.prompt is not None and text and self.options.record_chunks:
            await self._bridge.run(self._take_chunk, turn, text)

    async def on_documents(
        self,
        session_id: str,
        documents: Sequence[FoundDocument],
        *,
        query: str = "",
        turn_key: str | None = None,
        call: ToolCall | None = None,
        error: BaseException | str | None = None,
    ) -> None:
        """Record a search of a retriever of the framework as a tool call, and store the documents that it found as
        evidence of the type `rag_doc`.

        `call` contains the name, the provider and the duration of the retriever (None: they are not known); its id is
        completed here. `error` is the error of a search that failed (None: it succeeded).
        """
        if self._is_attached:
            turn = self._find(session_id, turn_key)
            turn_id = turn.prompt.turn_id if turn is not None and turn.prompt is not None else ""
            made = call or ToolCall(tool_call_id="", tool="retriever")
            await self._bridge.run(self._keep_documents, session_id, turn_id, documents, query, made, error)

    async def on_tasks(self, session_id: str, tasks: Sequence[Task]) -> None:
        """Write or replace tasks of the session's to-do list."""
        if self._is_attached and tasks:
            await self._bridge.run(self._keep_tasks, session_id, tasks)

    async def on_reply_unused(self, session_id: str, *, turn_key: str | None = None) -> None:
        """Report that the framework calls its model although the turn already has its reply (`InjectedPrompt.reply`)."""
        turn = self._find(session_id, turn_key)
        if turn is not None and turn.prompt is not None:
            detail = "The turn has its reply already; the framework calls its model all the same, and that answer is not stored."
            await self._bridge.run(self._note, "reply", session_id, turn.prompt.turn_id, detail)

    async def tasks(self, session_id: str) -> tuple[Task, ...]:
        """Return the to-do list of a session. Raises SessionNotFoundError if the session does not exist."""
        return await self._bridge.run(self._engine.tasks, session_id)

    async def on_turn_end(self, session_id: str, reply: Message | str, *, turn_key: str | None = None) -> None:
        """Commit `reply`, the final answer of a turn. If the engine could not prepare the turn, the user's message and
        the reply are stored.
        """
        if (turn := self._find(session_id, turn_key)) is not None:
            self._forget(turn)
            await self._bridge.run(self._end_turn, turn, reply)

    async def on_turn_failed(self, session_id: str, *, turn_key: str | None = None) -> None:
        """Drop a turn whose run ended without an answer. The engine keeps the user's message as unanswered."""
        if (turn := self._find(session_id, turn_key)) is not None:
            self._forget(turn)
            await self._bridge.run(self._drop_chunks, turn)

    def _find(self, session_id: str, turn_key: str | None) -> _RunningTurn | None:
        key = turn_key if turn_key is not None else self._current.get(session_id)
        return None if key is None or not self._is_attached else self._turns.get((session_id, key))

    def _forget(self, turn: _RunningTurn) -> None:
        self._turns.pop((turn.session_id, turn.key), None)
        if self._current.get(turn.session_id) == turn.key:
            del self._current[turn.session_id]

    async def _before_model_call(self, session_id: str, request: ModelRequest) -> InjectedPrompt | None:
        turn = await self._begin(session_id, request)
        # A turn that began in another process has made the calls whose answers are in the tail.
        answered = sum(message.get("role") == "assistant" for message in request.tail)
        turn.calls = max(turn.calls, answered) + 1
        turn.called_at, turn.chunks = perf_counter(), []
        turn.written_chunks, turn.writes, turn.written_at = 0, 0, turn.called_at
        turn.is_bare = request.is_bare and not request.tail
        if turn.prompt is None:
            self._book.add(ungoverned_calls=1)
            return None
        if request.tail:
            async with self._step("tail", turn):
                await self._engine.assemble(session_id, turn.prompt.turn_id, request.tail)
        self._book.add(governed_calls=1)
        return turn.prompt

    async def _begin(self, session_id: str, request: ModelRequest) -> _RunningTurn:
        """Return the turn of a request, prepared at the first one; a turn that could not be prepared continues without us."""
        place = (session_id, request.turn_key)
        turn = self._turns.setdefault(place, _RunningTurn(session_id, request.turn_key, request))
        self._turns.move_to_end(place)
        self._current[session_id] = request.turn_key
        while len(self._turns) > MOST_TURNS:
            self._turns.popitem(last=False)
        async with turn.lock:
            if turn.is_begun:
                return turn
            try:
                await self._check_owner(session_id, request.user_id)
                async with self._step("prepare", turn):
                    turn.prompt = await self._prepare(session_id, request)
            except BaseException:
                self._forget(turn)
                raise
            turn.is_begun = True
        self._book.add(turns=1)
        return turn

    async def _prepare(self, session_id: str, request: ModelRequest) -> InjectedPrompt:
        if request.history or request.before:
            known = request.history if await self._is_empty(session_id) else request.before
            if known:
                await self._engine.adopt_messages(session_id, known)
        turn_id = turn_id_of_key(self.framework, session_id, request.turn_key)
        prepared = await self._find_waiting(session_id, turn_id)
        if prepared is None:
            config = self._engine.config if request.agent else None
            if config is not None:
                config = replace(config, layers=replace(config.layers, agent=request.agent))
            prepared = await self._engine.prepare_turn(session_id, request.user, config, turn_id=turn_id)
        await self._note_owner(session_id, request.user_id)
        return prompt_of(prepared, system_in_place=self.options.system_in_place)

    async def _find_waiting(self, session_id: str, turn_id: str) -> PreparedTurn | None:
        """Return a waiting turn that another process prepared; its calls continue with the same prompt."""
        try:
            record = await self._engine.parts.store.turn(session_id, turn_id)
            return turn_from_record(record, 0) if record.status is TurnStatus.PREPARED else None
        except (SessionNotFoundError, TurnNotFoundError, DamagedRecordError):
            return None

    async def _is_missing(self, session_id: str) -> bool:
        try:
            await self._engine.branches(session_id)
        except SessionNotFoundError:
            return True
        return False

    async def _is_empty(self, session_id: str) -> bool:
        try:
            return (await self._engine.branches(session_id))[0].depth == 0
        except SessionNotFoundError:
            return True

    async def _check_owner(self, session_id: str, user_id: str | None) -> None:
        """Raise SessionOwnerError if session and run name different users."""
        if user_id is None:
            return
        if session_id not in self._known_owners:
            while len(self._known_owners) >= MOST_OWNERS:
                self._known_owners.pop(next(iter(self._known_owners)))
            document = await self._engine.parts.store.get_session(session_id)
            actor = document.meta.actor if document is not None and document.meta is not None else None
            self._known_owners[session_id] = (actor.user_id or None) if actor is not None else None
        owner = self._known_owners[session_id]
        if owner is not None and owner != user_id:
            raise SessionOwnerError(session_id, owner, user_id)

    async def _note_owner(self, session_id: str, user_id: str | None) -> None:
        if user_id is not None and self._known_owners.get(session_id) is None:
            await self._engine.parts.store.patch_session(session_id, {"meta": {"actor": {"user_id": user_id}}})
            self._known_owners[session_id] = user_id

    async def _after_model_call(self, turn: _RunningTurn, answer: ModelAnswer, usage: Any | None) -> None:
        if turn.prompt is None:
            return
        if answer.tool_calls:
            await self._drop_chunks(turn)
        async with self._step("usage", turn):
            counted = self._mapper.map_model_usage(usage) if usage is not None else ModelUsage(model_usage_id="")
            turn_id, reports = turn.prompt.turn_id, counted.prompt_tokens > 0 or counted.total_tokens > 0
            more = {COUNTED: REPORTED_WITH_MORE} if reports and not turn.is_bare else {}
            record = replace(
                counted,
                model_usage_id=f"{turn_id}.{turn.message_id}",
                model=counted.model or answer.model,
                provider=counted.provider or answer.provider,
                task_id=counted.task_id or answer.task_id,
                stage=ModelUsageStage.TOOL_CALL if answer.tool_calls else ModelUsageStage.ANSWER,
                latency_ms=counted.latency_ms or round((perf_counter() - turn.called_at) * 1000),
                extra={**counted.extra, "framework": self.framework, **more},
            )
            await self._engine.record_model_usage(turn.session_id, record, turn_id=turn_id)
            self._book.add(usages=1)

    async def _after_tool_call(
        self, turn: _RunningTurn, tool_call: Any, outcome: ToolOutcome, provider: ToolProvider | None
    ) -> None:
        if turn.prompt is None:
            return
        async with self._step("tool_call", turn):
            call = self._mapper.map_tool_call(tool_call)
            call_id, turn_id = call.tool_call_id, turn.prompt.turn_id
            since = turn.tools_since.pop(call_id, None)
            # A provider's ids are unique within one of its answers, not within a session.
            call = replace(
                call,
                tool_call_id=f"{turn_id}.{call_id}",
                provider=call.provider or provider or self._own_provider(),
                status=find_status(outcome.error),
                duration_ms=call.duration_ms if since is None else round((perf_counter() - since) * 1000),
                called_at=call.called_at or self._engine.parts.clock.now(),
                extra={**call.extra, "call_id": call_id, "framework": self.framework, "turn_id": turn_id},
            )
            text = str(outcome.error) if outcome.error is not None else write_result(outcome.result)
            documents = read_documents(outcome.result) if call.tool in self.options.document_tools else ()
            ids = await self._ingest(turn.session_id, turn_id, documents, query=str(dict(call.args_digest)))
            result = None if documents or not text else text
            await self._engine.record_tool_call(turn.session_id, call, ids, result=result)
            self._book.add(tool_calls=1)
            if text is None and not documents:
                raise ToolResultError(call.tool, call_id, type(outcome.result).__name__)

    async def _keep_documents(
        self,
        session_id: str,
        turn_id: str,
        documents: Sequence[FoundDocument],
        query: str,
        made: ToolCall,
        error: BaseException | str | None,
    ) -> None:
        async with self._step_of("documents", session_id, turn_id):
            if await self._is_missing(session_id):
                await self._engine.adopt_messages(session_id, ())
            ids = await self._ingest(session_id, turn_id, documents, query=query)
            call_id = made.tool_call_id or f"retrieval-{uuid4().hex}"
            call = replace(
                made,
                tool_call_id=f"{turn_id}.{call_id}" if turn_id else call_id,
                provider=made.provider or self._own_provider(),
                args_digest=made.args_digest or ({"query": query} if query else {}),
                status=find_status(error),
                called_at=made.called_at or self._engine.parts.clock.now(),
                extra={
                    **made.extra,
                    "framework": self.framework,
                    "documents": len(documents),
                    **({"turn_id": turn_id} if turn_id else {}),
                },
            )
            await self._engine.record_tool_call(session_id, call, ids, result=str(error) if error else None)
            self._book.add(tool_calls=1)

    def _own_provider(self) -> ToolProvider:
        return ToolProvider(kind=ProviderKind.BUILTIN, name=self.framework)

    async def _ingest(
        self, session_id: str, turn_id: str, documents: Sequence[FoundDocument], *, query: str
    ) -> tuple[str, ...]:
        """Ingest documents that a turn found one by one (none for an unknown turn); return the ids of their evidence."""
        ids: list[str] = []
        for each in documents:
            source = EvidenceSource(kind=SourceKind.RAG, name=each.name or self.framework, uri=each.uri)
            about = {"framework": self.framework, **({"query": query[:500]} if query else {})}
            score = {} if each.score is None else {"score": each.score}
            metadata = {**each.metadata, **about, **score}
            ingestor = self._engine.ingestor_of(session_id)
            links = EvidenceLinks(turn_id=turn_id or None)
            done = await ingestor.ingest(each.text, source, EvidenceType.RAG_DOC, links=links, metadata=metadata)
            ids += [] if done.evidence_id is None else [done.evidence_id]
            self._book.add(documents=1)
        return tuple(dict.fromkeys(ids))

    async def _keep_tasks(self, session_id: str, tasks: Sequence[Task]) -> None:
        async with self._step_of("tasks", session_id, ""):
            await self._engine.upsert_tasks(session_id, tasks)

    async def _take_chunk(self, turn: _RunningTurn, text: str) -> None:
        turn.chunks.append(text)
        self._book.add(chunks=1)
        waiting = len(turn.chunks) - turn.written_chunks
        if waiting >= CHUNKS_A_WRITE or perf_counter() - turn.written_at >= SECONDS_BETWEEN_WRITES:
            await self._write_chunks(turn)

    async def _write_chunks(self, turn: _RunningTurn) -> None:
        """Write the chunks since the last write as one."""
        assert turn.prompt is not None
        text, index = "".join(turn.chunks[turn.written_chunks :]), turn.writes
        turn.written_chunks, turn.writes, turn.written_at = len(turn.chunks), index + bool(text), perf_counter()
        if text:
            ids = {"turn_id": turn.prompt.turn_id, "message_id": turn.message_id}
            async with self._step("chunk", turn):
                await self._engine.commit_assistant_chunk(turn.session_id, text, index, **ids)

    async def _drop_chunks(self, turn: _RunningTurn) -> None:
        writes = turn.writes
        turn.chunks, turn.written_chunks, turn.writes = [], 0, 0
        if writes and turn.prompt is not None:
            async with self._step("chunk", turn):
                await self._engine.abort_assistant_message(
                    turn.session_id, turn_id=turn.prompt.turn_id, message_id=turn.message_id
                )

    async def _end_turn(self, turn: _RunningTurn, reply: Message | str) -> None:
        said = Message(role=Role.ASSISTANT, content=reply) if isinstance(reply, str) else reply
        async with self._step("commit", turn):
            if turn.prompt is None:
                messages = (
                    replace(turn.request.user, message_id=f"{turn.key}.u"),
                    replace(said, message_id=f"{turn.key}.a"),
                )
                await self._engine.adopt_messages(turn.session_id, messages)
                return
            turn_id = turn.prompt.turn_id
            if turn.chunks and "".join(turn.chunks) == said.content and said.author is None:
                await self._write_chunks(turn)
                await self._engine.finalize_assistant_message(
                    turn.session_id, turn_id=turn_id, message_id=turn.message_id
                )
                return
            await self._drop_chunks(turn)
            await self._engine.commit_assistant_message(turn.session_id, said, turn_id=turn_id)

    def _step(self, name: str, turn: _RunningTurn) -> Any:
        turn_id = turn.prompt.turn_id if turn.prompt is not None else ""
        return self._step_of(name, turn.session_id, turn_id)

    @asynccontextmanager
    async def _step_of(self, name: str, session_id: str, turn_id: str) -> AsyncIterator[None]:
        """Do one step with the framework's tag; its error is raised or recorded, by the failure policy."""
        with add_tags({"framework": self.framework}):
            try:
                yield
            except Exception as error:
                if self.options.failure is FailurePolicy.CLOSED:
                    raise
                await self._note(name, session_id, turn_id, f"{type(error).__name__}: {error}")

    async def _note(self, step: str, session_id: str, turn_id: str, detail: str) -> None:
        """Record in the report, in the log and in an event what the agent had to do without."""
        problem = self._book.note(step, session_id, turn_id, detail)
        _log.warning("%s: step %s failed, the agent goes on: %s", self.framework, step, problem.detail)
        with suppress(Exception):
            await self._engine.emitter.emit(
                EventType.DEGRADED,
                session_id,
                turn_id or None,
                reason=DegradationCode.INTEGRATION_FAILED.value,
                detail=f"{step}: {problem.detail}",
            )


def turn_id_of_key(framework: str, session_id: str, turn_key: str) -> str:
    """Return the id of the turn of a user message. The same `turn_key` gives the same id, also in another process."""
    digest = hashlib.sha256("\x00".join((session_id, turn_key)).encode("utf-8", "surrogatepass"))
    return f"{framework}-{digest.hexdigest()[:16]}"
