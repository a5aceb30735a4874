"""Connects crews of CrewAI with an engine.

    context = CrewContext(engine)
    context.attach(crew, session="s1")
    crew.kickoff()

Each task that an agent carries out is a turn: the task's description is the user's message, and the agent's result is
the reply. The tasks of a crew are also on the session's to-do list, under CrewAI's ids. Only the messages of a model
call are changed, never those that an agent stores. Copies of a crew (`kickoff_for_each`) are separate crews and must be
attached too.
"""

from __future__ import annotations

import json
from asyncio import wrap_future
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from time import perf_counter
from typing import Any
from uuid import uuid4

from jacquard import ConfigError, ContextEngine
from jacquard.integrations.core.adapter import ContextAdapter
from jacquard.integrations.core.mapping import document_from, find_provider, read_arguments, read_text, write_result
from jacquard.integrations.core.prompt import join_system
from jacquard.integrations.core.requirements import Requirement, check_framework, explain_missing
from jacquard.integrations.core.values import (
    AdapterOptions,
    AdapterReport,
    FailurePolicy,
    FoundDocument,
    InjectedPrompt,
    ModelAnswer,
    ModelRequest,
    ToolOutcome,
)
from jacquard.sync import SyncEngine
from mnemosyne import Author, AuthorKind, Message, ModelUsage, Role, Task, TaskStatus, ToolCall, ToolProvider
from mnemosyne.core.optional_packages import silence
from mnemosyne.values import dataclass

REQUIREMENT = Requirement(extra="crewai", distribution="crewai", floor="1.15.6")

silence("crewai")
try:
    from crewai import Agent, Crew
    from crewai.knowledge.knowledge import Knowledge
    from crewai.llms.base_llm import BaseLLM
    from crewai.tools import BaseTool
    from crewai.types.usage_metrics import UsageMetrics
except ImportError as error:
    raise explain_missing(REQUIREMENT, error) from error

_CALLS = ("call", "acall", "_track_token_usage_internal", "_emit_stream_chunk_event")
_SEARCHES = ("query", "aquery")
_TASK_NAME_CHARS = 120


class CrewAIMapper:
    """Converts messages, tool calls and usage of CrewAI to values of a session."""

    framework = "crewai"

    def map_message(self, message: Any) -> Message:
        """Return a message of a model call (a mapping) with its role and text."""
        role = Role.ASSISTANT if message.get("role") == "assistant" else Role.USER
        return Message(role=role, content=read_text(message.get("content")))

    def map_tool_call(self, call: Any) -> ToolCall:
        """Return a tool call with the id of its task."""
        return ToolCall(
            tool_call_id=call.call_id,
            tool=call.name,
            args_digest=read_arguments(call.arguments),
            duration_ms=call.duration_ms,
            provider=call.provider,
            task_id=call.task_id,
        )

    def map_model_usage(self, usage: Any) -> ModelUsage:
        """Return the token counts of a `UsageMetrics`."""
        return ModelUsage(
            model_usage_id="",
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            total_tokens=usage.total_tokens,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Call:
    """Call of a tool: its id for the model, and its data."""

    call_id: str
    name: str
    arguments: Any
    task_id: str
    duration_ms: int = 0
    provider: ToolProvider | None = None


@dataclass(frozen=True, slots=True)
class _WatchedResult:
    """Result or error of a tool, before CrewAI made text of it."""

    name: str
    arguments: Any
    outcome: ToolOutcome
    duration_ms: int
    provider: ToolProvider | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _WatchedSearch:
    """Search of a knowledge base, which CrewAI makes before the first model call of a task."""

    query: str
    documents: tuple[FoundDocument, ...]
    error: Exception | None
    duration_ms: int


@dataclass(slots=True)
class _Run:
    """Task that an agent carries out."""

    adapter: ContextAdapter
    crew: Any
    agent: Any
    task: Any
    session_id: str
    user_id: str | None
    key: str
    user_place: int | None = None
    are_tasks_noted: bool = False
    done: deque[_WatchedResult] = field(default_factory=deque)
    searches: deque[_WatchedSearch] = field(default_factory=deque)
    recorded: set[str] = field(default_factory=set)

    @property
    def task_id(self) -> str:
        return str(self.task.id)


@dataclass(slots=True)
class _ModelCall:
    """Running call of the model: its reported usage, and the chunks in transfer to the engine."""

    run: _Run
    usage: Any = None
    pending: list[Future[None]] = field(default_factory=list)


_RUN: ContextVar[_Run | None] = ContextVar("jacquard_crewai_run", default=None)
_MODEL_CALL: ContextVar[_ModelCall | None] = ContextVar("jacquard_crewai_model_call", default=None)


class CrewContext:
    """Attaches crews to an engine. All crews of one object share one report.

    `kickoff` calls the model in the thread of its caller, so it needs an engine of `jacquard.sync`. `kickoff_async` and
    `akickoff` work with every engine. `failure` and the other options are described at `AdapterOptions`. Raises
    FrameworkError if CrewAI is too old or lacks a hook.
    """

    def __init__(
        self,
        engine: ContextEngine | SyncEngine,
        *,
        failure: FailurePolicy | str = FailurePolicy.OPEN,
        document_tools: Collection[str] = (),
        record_chunks: bool = True,
        system_in_place: bool = False,
    ) -> None:
        hooks: list[tuple[object, str]] = [(BaseLLM, name) for name in _CALLS]
        hooks += [(Agent, "execute_task"), (Agent, "aexecute_task"), (BaseTool, "_run")]
        hooks += [(Knowledge, name) for name in _SEARCHES]
        version = check_framework(REQUIREMENT, hooks)
        options = AdapterOptions(
            failure=FailurePolicy(failure),
            document_tools=frozenset(document_tools),
            record_chunks=record_chunks,
            system_in_place=system_in_place,
        )
        self.adapter = ContextAdapter(engine, CrewAIMapper(), options, version=version, restore=self._restore)
        self._runs: dict[str, _Run] = {}
        self._replaced: list[tuple[Any, str]] = []

    @property
    def report(self) -> AdapterReport:
        """Counts of the adapter's actions so far, and its problems."""
        return self.adapter.report

    def detach(self) -> None:
        """Give agents, models and tools their original methods back."""
        self.adapter.detach()

    def attach(self, crew: Crew, *, session: str, user: str | None = None) -> None:
        """Add the engine's prompt to every model call of the crew's agents, and record their actions in the session
        `session`.

        Raises ConfigError if one of the agents is already attached. `user` is the id of the user (None: unknown).
        """
        agents = {
            id(agent): agent for agent in (*crew.agents, *(task.agent for task in crew.tasks)) if agent is not None
        }
        for agent in agents.values():
            if "execute_task" in vars(agent):
                raise ConfigError(
                    f"Agent {agent.role!r} is attached already; detach it before attaching its crew again."
                )
        for agent in agents.values():
            self._watch_agent(agent, crew, session, user)
            self._watch_model(agent.llm)
            for tool in agent.tools or ():
                self._watch_tool(tool)
        for task in crew.tasks:
            for tool in task.tools or ():
                self._watch_tool(tool)
        self._watch_knowledge(crew.knowledge)

    def _replace(self, owner: Any, name: str, method: Any) -> None:
        object.__setattr__(owner, name, method)
        self._replaced.append((owner, name))

    def _restore(self) -> None:
        for owner, name in self._replaced:
            if name in vars(owner):
                object.__delattr__(owner, name)
        self._replaced.clear()
        self._runs.clear()

    def _is_watched(self, owner: Any) -> bool:
        return any(each is owner for each, _ in self._replaced)

    def _watch_agent(self, agent: Any, crew: Any, session_id: str, user_id: str | None) -> None:
        """Begin and end a turn with each task; CrewAI repeats a failed task within the same call."""
        execute, aexecute = agent.execute_task, agent.aexecute_task

        def begin(task: Any) -> _Run:
            run = _Run(self.adapter, crew, agent, task, session_id, user_id, uuid4().hex)
            self._runs[run.task_id] = run
            # An agent with sources gets a new one with each kickoff.
            self._watch_knowledge(agent.knowledge)
            return run

        def watched(task: Any, *args: Any, **kwargs: Any) -> Any:
            if str(task.id) in self._runs:
                return execute(task, *args, **kwargs)
            run, block = begin(task), self.adapter.run_blocking
            token = _RUN.set(run)
            try:
                result = execute(task, *args, **kwargs)
            except BaseException as error:
                self._runs.pop(run.task_id, None)
                block(self._fail, run, error)
                raise
            finally:
                _RUN.reset(token)
                self._release(agent.knowledge)
            block(self._finish, run, agent, result)
            return result

        async def awatched(task: Any, *args: Any, **kwargs: Any) -> Any:
            if str(task.id) in self._runs:
                return await aexecute(task, *args, **kwargs)
            run = begin(task)
            token = _RUN.set(run)
            try:
                result = await aexecute(task, *args, **kwargs)
            except BaseException as error:
                self._runs.pop(run.task_id, None)
                await self._fail(run, error)
                raise
            finally:
                _RUN.reset(token)
                self._release(agent.knowledge)
            await self._finish(run, agent, result)
            return result

        self._replace(agent, "execute_task", watched)
        self._replace(agent, "aexecute_task", awatched)

    def _watch_model(self, llm: Any) -> None:
        """Add our prompt to the calls that an agent makes for one of our tasks; other calls pass unchanged."""
        if self._is_watched(llm):
            return
        watchers = (self._watch_call, self._watch_acall, self._watch_usage, self._watch_chunks)
        for name, watch in zip(_CALLS, watchers, strict=True):
            self._replace(llm, name, watch(llm, getattr(llm, name)))

    def _watch_call(self, llm: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(messages: Any, *args: Any, **kwargs: Any) -> Any:
            run, block = self._run_of(messages, kwargs), self.adapter.run_blocking
            if run is None:
                return call(messages, *args, **kwargs)
            prompt, items = block(self._prepare, run, messages)
            if prompt is None or prompt.reply is not None:
                return call(items, *args, **kwargs) if prompt is None else prompt.reply
            under_way = _ModelCall(run)
            token = _MODEL_CALL.set(under_way)
            try:
                answer = call(items, *args, **kwargs)
            finally:
                _MODEL_CALL.reset(token)
            for each in under_way.pending:
                each.result()
            block(self._record_answer, under_way, answer, llm)
            return answer

        return watched

    def _watch_acall(self, llm: Any, acall: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(messages: Any, *args: Any, **kwargs: Any) -> Any:
            run = self._run_of(messages, kwargs)
            if run is None:
                return await acall(messages, *args, **kwargs)
            prompt, items = await self._prepare(run, messages)
            if prompt is None or prompt.reply is not None:
                return await acall(items, *args, **kwargs) if prompt is None else prompt.reply
            under_way = _ModelCall(run)
            token = _MODEL_CALL.set(under_way)
            try:
                answer = await acall(items, *args, **kwargs)
            finally:
                _MODEL_CALL.reset(token)
            for each in under_way.pending:
                await wrap_future(each)
            await self._record_answer(under_way, answer, llm)
            return answer

        return watched

    def _watch_usage(self, llm: Any, track: Callable[..., Any]) -> Callable[..., Any]:
        """Record the provider's counts of a call; CrewAI itself only adds them up."""

        def watched(usage_data: Any, *args: Any, **kwargs: Any) -> Any:
            if (under_way := _MODEL_CALL.get()) is not None:
                under_way.usage = UsageMetrics.from_provider_dict(usage_data)
            return track(usage_data, *args, **kwargs)

        return watched

    def _watch_chunks(self, llm: Any, emit: Callable[..., Any]) -> Callable[..., Any]:
        def watched(chunk: str, *args: Any, **kwargs: Any) -> Any:
            under_way = _MODEL_CALL.get()
            if under_way is not None and chunk and kwargs.get("tool_call") is None:
                run = under_way.run
                take = self.adapter.submit(self.adapter.on_chunk, run.session_id, chunk, turn_key=run.key)
                under_way.pending.append(take)
            return emit(chunk, *args, **kwargs)

        return watched

    def _watch_tool(self, tool: Any) -> None:
        """Record the result or error of a tool, and its duration.

        For models with function calling CrewAI calls `run`, for others `_run`; `run` of most tools calls `_run`.
        """
        if not self._is_watched(tool) and isinstance(tool, BaseTool):
            for name in ("run", "_run"):
                self._replace(tool, name, self._watch_function(tool, getattr(tool, name)))

    def _watch_knowledge(self, knowledge: Any) -> None:
        """Note the searches of a knowledge base, with their errors and durations."""
        if knowledge is None or self._is_watched(knowledge):
            return
        query, aquery = (getattr(knowledge, name) for name in _SEARCHES)

        def watched(texts: Any, *args: Any, **kwargs: Any) -> Any:
            with self._note_search(texts) as found:
                found += (results := query(texts, *args, **kwargs)) or ()
                return results

        async def awatched(texts: Any, *args: Any, **kwargs: Any) -> Any:
            with self._note_search(texts) as found:
                found += (results := await aquery(texts, *args, **kwargs)) or ()
                return results

        self._replace(knowledge, "query", watched)
        self._replace(knowledge, "aquery", awatched)

    def _release(self, knowledge: Any) -> None:
        """Give the knowledge base of an agent its own methods back."""
        if self._is_watched(knowledge):
            for name in _SEARCHES:
                object.__delattr__(knowledge, name)
            self._replaced = [each for each in self._replaced if each[0] is not knowledge]

    @contextmanager
    def _note_search(self, texts: Any) -> Iterator[list[Any]]:
        """Note a search with the results that are put into the list."""
        run, since, found = _RUN.get(), perf_counter(), list[Any]()
        fault: Exception | None = None
        try:
            yield found
        except Exception as error:
            fault = error
            raise
        finally:
            if run is not None and run.adapter is self.adapter:
                documents = tuple(
                    document_from(
                        each["content"], each.get("metadata") or {}, name="knowledge", score=each.get("score")
                    )
                    for each in found
                )
                duration_ms = round((perf_counter() - since) * 1000)
                asked = " ".join(map(str, texts)) if isinstance(texts, list) else str(texts)
                run.searches.append(
                    _WatchedSearch(query=asked, documents=documents, error=fault, duration_ms=duration_ms)
                )

    def _watch_function(self, tool: Any, own: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            run, since = _RUN.get(), perf_counter()
            if run is None or run.adapter is not self.adapter:
                return own(*args, **kwargs)
            # Its own inner calls, such as `_run`, belong to the same call.
            token = _RUN.set(None)
            outcome = ToolOutcome(error="stopped")
            try:
                result = own(*args, **kwargs)
            except Exception as error:
                outcome = ToolOutcome(error=error)
                raise
            else:
                outcome = ToolOutcome(result=result if write_result(result) is not None else str(result))
                return result
            finally:
                _RUN.reset(token)
                duration_ms, name = round((perf_counter() - since) * 1000), _plain_name(tool.name)
                run.done.append(_WatchedResult(name, kwargs or list(args), outcome, duration_ms, _provider_of(tool)))

        return watched

    def _run_of(self, messages: Any, kwargs: dict[str, Any]) -> _Run | None:
        task = kwargs.get("from_task")
        run = self._runs.get(str(task.id)) if task is not None else None
        return run if isinstance(messages, list) and kwargs.get("from_agent") is not None else None

    async def _prepare(self, run: _Run, messages: Sequence[Any]) -> tuple[InjectedPrompt | None, list[Any]]:
        """Return our prompt and the messages with it; raises ConfigError if there is no user message."""
        items = list(messages)
        place = run.user_place
        if place is None or place >= len(items) or items[place].get("role") != "user":
            place = next((n for n in reversed(range(len(items))) if items[n].get("role") == "user"), None)
        if place is None:
            raise ConfigError("The agent's messages contain no message of the user, with which a turn begins.")
        run.user_place = place
        before, user, tail = items[:place], items[place], items[place + 1 :]
        await self._record_tools(run, tail)
        systems = [message for message in before if message.get("role") == "system"]
        own = "\n\n".join(read_text(message.get("content")) for message in systems)
        around, said = read_text(user.get("content")), str(run.task.description).strip()
        if said not in around:
            said = around
        history = (self.adapter.map_message(each) for each in before if each.get("role") in ("user", "assistant"))
        request = ModelRequest(
            turn_key=run.key,
            user=Message(role=Role.USER, content=said),
            history=tuple(message for message in history if message.content),
            tail=tuple(_to_plain(each) for each in tail),
            user_id=run.user_id,
            agent=_role_of(run.agent),
        )
        prompt = await self.adapter.on_before_model_call(run.session_id, request)
        if prompt is None:
            return None, items
        if not run.are_tasks_noted:
            run.are_tasks_noted = True
            await self._note_tasks(run, TaskStatus.IN_PROGRESS)
        await self._record_searches(run)
        return prompt, [*_inject(prompt, own, user, around, said), *tail]

    async def _record_answer(self, under_way: _ModelCall, answer: Any, llm: Any) -> None:
        run, calls = under_way.run, len(answer) if isinstance(answer, list) else 0
        provider, task_id = str(llm.provider or ""), run.task_id
        made = ModelAnswer(tool_calls=calls, model=str(llm.model), provider=provider, task_id=task_id)
        await self.adapter.on_after_model_call(run.session_id, made, under_way.usage, turn_key=run.key)

    async def _record_tools(self, run: _Run, tail: Sequence[Any]) -> None:
        """Record calls whose results are among the messages, by the provider's ids; then those of tools without such messages."""
        made = {
            call["id"]: call["function"]
            for message in tail
            for call in map(_read_call, message.get("tool_calls") or ())
        }
        for message in tail:
            call_id = str(message.get("tool_call_id") or "")
            if message.get("role") != "tool" or call_id in run.recorded:
                continue
            asked = made.get(call_id, {})
            name, arguments = (
                str(asked.get("name") or message.get("name") or ""),
                read_arguments(asked.get("arguments")),
            )
            seen = _take(run.done, name, arguments)
            text = read_text(message.get("content"))
            result = seen or _WatchedResult(name, arguments, ToolOutcome(result=text), 0, None)
            await self._record_call(run, call_id, name, arguments, result)
        while run.done:
            seen = run.done.popleft()
            await self._record_call(run, f"call_{len(run.recorded)}", seen.name, seen.arguments, seen)

    async def _record_call(self, run: _Run, call_id: str, name: str, arguments: Any, result: _WatchedResult) -> None:
        run.recorded.add(call_id)
        call = _Call(
            call_id=call_id,
            name=name,
            arguments=arguments,
            task_id=run.task_id,
            duration_ms=result.duration_ms,
            provider=result.provider,
        )
        await self.adapter.on_tool_call_end(run.session_id, call, result.outcome, turn_key=run.key)

    async def _record_searches(self, run: _Run) -> None:
        while run.searches:
            each = run.searches.popleft()
            call = ToolCall(tool_call_id="", tool="Knowledge", duration_ms=each.duration_ms, task_id=run.task_id)
            await self.adapter.on_documents(
                run.session_id, each.documents, query=each.query, turn_key=run.key, call=call, error=each.error
            )

    async def _finish(self, run: _Run, agent: Any, result: Any) -> None:
        """Commit the result of a task, with the role of its agent as the author."""
        await self._record_searches(run)
        executor = getattr(agent, "agent_executor", None)
        messages = list(getattr(executor, "messages", None) or ())
        await self._record_tools(run, messages[(run.user_place or 0) + 1 :])
        text = result if isinstance(result, str) else _write_output(result)
        author = Author(kind=AuthorKind.AGENT, id=_role_of(agent))
        reply = Message(role=Role.ASSISTANT, content=text, author=author)
        await self.adapter.on_turn_end(run.session_id, reply, turn_key=run.key)
        self._runs.pop(run.task_id, None)
        if run.are_tasks_noted:
            await self._note_tasks(run, TaskStatus.COMPLETED)

    async def _fail(self, run: _Run, error: BaseException) -> None:
        await self.adapter.on_turn_failed(run.session_id, turn_key=run.key)
        if run.are_tasks_noted:
            await self._note_tasks(run, TaskStatus.FAILED, f"{type(error).__name__}: {error}")

    async def _note_tasks(self, run: _Run, status: TaskStatus, error: str = "") -> None:
        """Write the running task, and those of its crew that the session does not have yet."""
        known = {task.task_id: task for task in await self.adapter.tasks(run.session_id)}
        tasks = [known.get(str(task.id)) or _to_task(task) for task in run.crew.tasks]
        present = known.get(run.task_id) or _to_task(run.task)
        changed = replace(present, status=status, error=error)
        if run.task_id not in {task.task_id for task in tasks}:
            tasks.append(changed)
        written = [changed if task.task_id == run.task_id else task for task in tasks]
        await self.adapter.on_tasks(run.session_id, [each for each in written if known.get(each.task_id) != each])


def _role_of(agent: Any) -> str:
    return str(agent.role).strip()


def _provider_of(tool: Any) -> ToolProvider | None:
    """Return the provider of a tool: its MCP server, else the module of its function or class."""
    server = getattr(tool, "server_name", None) or getattr(tool, "_server_name", None)
    return find_provider(getattr(tool, "func", None), type(tool), name=server if isinstance(server, str) else "")


def _to_task(task: Any) -> Task:
    """Return a task of a crew with its id, its name and its prerequisites."""
    waits = task.context if isinstance(task.context, list) else []
    name = str(task.name or task.description).strip()
    depends_on = tuple(str(each.id) for each in waits)
    return Task(task_id=str(task.id), name=name[:_TASK_NAME_CHARS], depends_on=depends_on)


def _inject(prompt: InjectedPrompt, own: str, user: Any, around: str, said: str) -> list[Any]:
    """Return our messages with the agent's own system text; CrewAI's text before and after the task's description stays."""
    *earlier, asked = prompt.messages
    text = around.replace(said, asked.content, 1)
    content = user.get("content")
    if isinstance(content, list):
        others = [part for part in content if not (isinstance(part, dict) and part.get("type") == "text")]
        content = [{"type": "text", "text": text}, *others]
    else:
        content = text
    return [
        {"role": "system", "content": join_system(own, prompt)},
        *({"role": part.role, "content": part.content} for part in earlier),
        {**user, "content": content},
    ]


def _take(done: deque[_WatchedResult], name: str, arguments: Any) -> _WatchedResult | None:
    """Remove and return the result of a call of this name: the one with these arguments, else the first."""
    same = [each for each in done if each.name == _plain_name(name)]
    if not same:
        return None
    found = next((each for each in same if each.arguments == arguments), same[0])
    done.remove(found)
    return found


def _plain_name(name: str) -> str:
    return "_".join(name.lower().split())


def _read_call(call: Any) -> dict[str, Any]:
    """Return a call of the model as a mapping of `id` and `function`."""
    if isinstance(call, dict):
        return {"id": str(call.get("id") or ""), "function": call.get("function") or {}}
    function = getattr(call, "function", None)
    about = {"name": getattr(function, "name", ""), "arguments": getattr(function, "arguments", "")}
    return {"id": str(getattr(call, "id", "")), "function": about}


def _to_plain(message: Any) -> dict[str, Any]:
    """Return a message of the tail in OpenAI's form, to check its cost and its pairs."""
    calls = [_read_call(call) for call in message.get("tool_calls") or ()]
    plain = {"role": str(message.get("role")), "content": read_text(message.get("content"))}
    answers = {"tool_call_id": message["tool_call_id"]} if message.get("tool_call_id") else {}
    return {**plain, **answers, **({"tool_calls": calls} if calls else {})}


def _write_output(output: Any) -> str:
    plain = output.model_dump(mode="json") if hasattr(output, "model_dump") else output
    return write_result(plain) or json.dumps(str(plain))
