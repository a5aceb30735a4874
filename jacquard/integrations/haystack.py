"""Connects Haystack with an engine: agents, chat generators in pipelines, and retrievers.

    attachment = attach(Agent(chat_generator=generator, tools=tools), engine)
    agent.run(messages=[...], hook_context={"session_id": "s1"})

    pipeline.add_component("llm", ContextChatGenerator(generator, engine, session="s1"))

`DocumentRecorder` stores the documents that a retriever found. `ContextRetriever` searches the memory of a session.
Only the input of the chat generator is changed, never the messages that an agent returns.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import field
from functools import partial
from time import perf_counter
from typing import Any
from uuid import uuid4

from jacquard import ConfigError, ContextEngine
from jacquard.integrations.core.adapter import ContextAdapter
from jacquard.integrations.core.mapping import document_from, find_provider, read_arguments, write_result
from jacquard.integrations.core.prompt import join_system
from jacquard.integrations.core.recall import RecalledText, SessionRecall
from jacquard.integrations.core.requirements import Requirement, check_framework, explain_missing
from jacquard.integrations.core.values import (
    AdapterOptions,
    AdapterReport,
    FailurePolicy,
    InjectedPrompt,
    ModelAnswer,
    ModelRequest,
    ToolOutcome,
)
from jacquard.sync import SyncEngine
from mnemosyne import Message, ModelUsage, Role, ToolCall, ToolProvider
from mnemosyne.core.optional_packages import silence
from mnemosyne.values import dataclass

REQUIREMENT = Requirement(extra="haystack", distribution="haystack-ai", floor="3.4")

silence("haystack")
try:
    from haystack import Document, component
    from haystack.components.agents import Agent
    from haystack.core.serialization import component_to_dict
    from haystack.dataclasses import ChatMessage, StreamingChunk, TextContent
    from haystack.hooks import protocol as hook_points
    from haystack.tools import Tool
    from haystack.tools.utils import flatten_tools_or_toolsets
except ImportError as error:
    raise explain_missing(REQUIREMENT, error) from error

_POINTS = (hook_points.BEFORE_RUN, hook_points.AFTER_TOOL, hook_points.AFTER_RUN)
_NEEDED = ("BEFORE_RUN", "AFTER_TOOL", "AFTER_RUN")


class HaystackMapper:
    """Converts messages, tool calls and usage of Haystack to values of a session."""

    framework = "haystack"

    def map_message(self, message: Any) -> Message:
        """Return a `ChatMessage` with its role and text."""
        role = Role.ASSISTANT if message.role.value == "assistant" else Role.USER
        return Message(role=role, content=_text_of(message))

    def map_tool_call(self, call: Any) -> ToolCall:
        """Return a tool call from (Haystack's `ToolCall`, duration in milliseconds)."""
        made, duration_ms = call
        # Haystack allows calls without an id; then they are distinguished by name.
        arguments = read_arguments(made.arguments)
        return ToolCall(
            tool_call_id=made.id or made.tool_name, tool=made.tool_name, args_digest=arguments, duration_ms=duration_ms
        )

    def map_model_usage(self, usage: Any) -> ModelUsage:
        """Return the token counts in the `meta` of a reply. They may have the names of OpenAI's or Anthropic's API."""
        asked = usage.get("prompt_tokens") or usage.get("input_tokens") or 0
        answered = usage.get("completion_tokens") or usage.get("output_tokens") or 0
        total = usage.get("total_tokens") or asked + answered
        return ModelUsage(model_usage_id="", prompt_tokens=asked, completion_tokens=answered, total_tokens=total)


@dataclass(slots=True)
class _Run:
    """Run of an agent: its session and turn, and its tools' results before Haystack made text of them."""

    adapter: ContextAdapter
    session_id: str
    key: str
    outer: _Run | None = None
    user_place: int | None = None
    done: dict[str, deque[tuple[ToolOutcome, int]]] = field(default_factory=lambda: defaultdict(deque))


_RUN: ContextVar[_Run | None] = ContextVar("jacquard_haystack_run", default=None)


@component
class ContextChatGenerator:
    """Chat generator that adds the engine's prompt to the input of another chat generator, `chat_generator`.

    In a pipeline, `session` names the session, and a reply without tool calls ends the turn. Within an agent, use
    `attach` instead. A saved pipeline contains only `chat_generator`.
    """

    def __init__(
        self,
        chat_generator: Any,
        engine: ContextEngine | SyncEngine,
        *,
        session: str | None = None,
        user: str | None = None,
        failure: FailurePolicy | str = FailurePolicy.OPEN,
        record_chunks: bool = True,
        system_in_place: bool = False,
        adapter: ContextAdapter | None = None,
    ) -> None:
        options = AdapterOptions(
            failure=FailurePolicy(failure), record_chunks=record_chunks, system_in_place=system_in_place
        )
        self.inner = chat_generator
        self.adapter = adapter or _open_adapter(engine, options)
        self._session, self._user = session, user
        self._open_turns: dict[str, tuple[str, str]] = {}

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage] | str,
        streaming_callback: Any | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        *,
        tools: Any | None = None,
    ) -> dict[str, list[ChatMessage]]:
        """Return the replies of the inner generator to our prompt."""
        call, block = self._read(messages, tools), self.adapter.run_blocking
        prompt = block(self.adapter.on_before_model_call, call.session_id, call.request)
        if prompt is not None and prompt.reply is not None:
            result = {"replies": [ChatMessage.from_assistant(prompt.reply)]}
        else:
            listener = streaming_callback or getattr(self.inner, "streaming_callback", None)
            if prompt is not None and listener is not None:
                streaming_callback = partial(self._tap, listener, call)
            given = {"generation_kwargs": generation_kwargs, "streaming_callback": streaming_callback, "tools": tools}
            result = self.inner.run(messages=call.inject(prompt), **_without_none(given))
        if prompt is not None and prompt.reply is None:
            answer, usage = _read_answer(result["replies"])
            block(self.adapter.on_after_model_call, call.session_id, answer, usage, turn_key=call.request.turn_key)
        if (text := self._final_text(call, result["replies"])) is not None:
            block(self.adapter.on_turn_end, call.session_id, text, turn_key=call.request.turn_key)
        return result

    @component.output_types(replies=list[ChatMessage])
    async def run_async(
        self,
        messages: list[ChatMessage] | str,
        streaming_callback: Any | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        *,
        tools: Any | None = None,
    ) -> dict[str, list[ChatMessage]]:
        """Return the replies of the inner generator to our prompt."""
        call = self._read(messages, tools)
        prompt = await self.adapter.on_before_model_call(call.session_id, call.request)
        if prompt is not None and prompt.reply is not None:
            result = {"replies": [ChatMessage.from_assistant(prompt.reply)]}
        else:
            listener = streaming_callback or getattr(self.inner, "streaming_callback", None)
            if prompt is not None and listener is not None:
                streaming_callback = _async_tap(self.adapter, listener, call)
            given = {"generation_kwargs": generation_kwargs, "streaming_callback": streaming_callback, "tools": tools}
            inputs = {"messages": call.inject(prompt), **_without_none(given)}
            if hasattr(self.inner, "run_async"):
                result = await self.inner.run_async(**inputs)
            else:
                result = await asyncio.to_thread(self.inner.run, **inputs)
        if prompt is not None and prompt.reply is None:
            answer, usage = _read_answer(result["replies"])
            await self.adapter.on_after_model_call(call.session_id, answer, usage, turn_key=call.request.turn_key)
        if (text := self._final_text(call, result["replies"])) is not None:
            await self.adapter.on_turn_end(call.session_id, text, turn_key=call.request.turn_key)
        return result

    def to_dict(self) -> dict[str, Any]:
        """Return the inner generator in saved form. It can be loaded without an engine."""
        return component_to_dict(self.inner, "chat_generator")

    def warm_up(self) -> None:
        """Warm up the inner generator."""
        if hasattr(self.inner, "warm_up"):
            self.inner.warm_up()

    def close(self) -> None:
        """Close the inner generator."""
        if hasattr(self.inner, "close"):
            self.inner.close()

    async def close_async(self) -> None:
        """Close the inner generator."""
        if hasattr(self.inner, "close_async"):
            await self.inner.close_async()
        else:
            self.close()

    def _tap(self, listener: Callable[[StreamingChunk], None], call: _Call, chunk: StreamingChunk) -> None:
        if chunk.content:
            key = call.request.turn_key
            self.adapter.run_blocking(self.adapter.on_chunk, call.session_id, chunk.content, turn_key=key)
        listener(chunk)

    def _read(self, messages: list[ChatMessage] | str, tools: Any) -> _Call:
        items = [ChatMessage.from_user(messages)] if isinstance(messages, str) else list(messages)
        run = self._current_run()
        place = run.user_place if run is not None else None
        if place is None or place >= len(items) or items[place].role.value != "user":
            place = next((n for n in reversed(range(len(items))) if items[n].role.value == "user"), None)
        if place is None:
            raise ConfigError("The messages contain no message of the user, with which a turn begins.")
        if run is not None:
            run.user_place = place
            return _Call(self.adapter, run.session_id, run.key, items, place, tools, self._user)
        if self._session is None:
            raise ConfigError(
                "No session is named: give ContextChatGenerator session=..., or use it by attach in an agent."
            )
        said = _text_of(items[place])
        known = self._open_turns.get(self._session)
        key = known[1] if known is not None and known[0] == said and place < len(items) - 1 else uuid4().hex
        self._open_turns[self._session] = (said, key)
        return _Call(self.adapter, self._session, key, items, place, tools, self._user)

    def _current_run(self) -> _Run | None:
        """Return the run of the agent that this generator belongs to."""
        run = _RUN.get()
        return run if run is not None and run.adapter is self.adapter else None

    def _final_text(self, call: _Call, replies: Sequence[ChatMessage]) -> str | None:
        """Return the reply that ends a turn; None if tools are called, and within an agent, which ends it itself."""
        if self._current_run() is not None or any(reply.tool_calls for reply in replies):
            return None
        self._open_turns.pop(call.session_id, None)
        return _text_of(replies[0]) if replies else ""


class _Call:
    """Call of a chat generator: the messages before the user's, that message (at `place`), and those after it."""

    def __init__(
        self,
        adapter: ContextAdapter,
        session_id: str,
        turn_key: str,
        messages: Sequence[ChatMessage],
        place: int,
        tools: Any,
        user_id: str | None,
    ) -> None:
        self.session_id, self._messages, self._place = session_id, list(messages), place
        before = messages[:place]
        self._own = "\n\n".join(_text_of(each) for each in before if each.role.value == "system")
        history = (adapter.map_message(each) for each in before if each.role.value in ("user", "assistant"))
        self.request = ModelRequest(
            turn_key=turn_key,
            user=adapter.map_message(messages[place]),
            history=tuple(message for message in history if message.content),
            tail=tuple(plain for each in messages[place + 1 :] for plain in _to_plain(each)),
            is_bare=not (self._own or tools),
            user_id=user_id,
        )

    def inject(self, prompt: InjectedPrompt | None) -> list[ChatMessage]:
        """Return the messages with our prompt; images and files of the user's message stay."""
        if prompt is None:
            return self._messages
        *earlier, asked = prompt.messages
        user = self._messages[self._place]
        others = [part for part in user._content if not isinstance(part, TextContent)]
        parts = [TextContent(text=asked.content), *others]
        return [
            ChatMessage.from_system(join_system(self._own, prompt)),
            *(_to_message(part.role, part.content) for part in earlier),
            ChatMessage.from_user(content_parts=parts, meta=user.meta, name=user.name),
            *self._messages[self._place + 1 :],
        ]


class Attachment:
    """Adapter that `attach` attached, with its report and the means to detach it."""

    def __init__(self, adapter: ContextAdapter) -> None:
        self.adapter = adapter

    @property
    def report(self) -> AdapterReport:
        """Counts of the adapter's actions so far, and its problems."""
        return self.adapter.report

    def detach(self) -> None:
        """Give the agent its own generator, hooks and tools back."""
        self.adapter.detach()


def attach(
    agent: Agent,
    engine: ContextEngine | SyncEngine,
    *,
    session: str | Callable[[Any], str] | None = None,
    user: str | None = None,
    failure: FailurePolicy | str = FailurePolicy.OPEN,
    document_tools: Collection[str] = (),
    record_chunks: bool = True,
    system_in_place: bool = False,
) -> Attachment:
    """Add the engine's prompt to every model call of an agent, and record its actions.

    `session` is a session id, or a function that returns a session id for the agent's `State`. If `session` is None,
    the run's `hook_context["session_id"]` is used. `failure` and the other options are described at `AdapterOptions`.
    Raises FrameworkError if Haystack is too old or lacks a hook. Raises ConfigError if the agent is already attached.
    `user` is the id of the user (None: unknown).
    """
    if isinstance(agent.chat_generator, ContextChatGenerator):
        raise ConfigError("The agent is attached already; detach the first adapter before attaching another.")
    options = AdapterOptions(
        failure=FailurePolicy(failure),
        document_tools=frozenset(document_tools),
        record_chunks=record_chunks,
        system_in_place=system_in_place,
    )
    own, tools = agent.chat_generator, flatten_tools_or_toolsets(agent.tools)
    hooks: dict[Any, _RunHook] = {}

    def restore() -> None:
        agent.chat_generator = own
        for point, hook in hooks.items():
            agent.hooks[point] = [each for each in agent.hooks.get(point, []) if each is not hook]
        for tool in tools:
            for name in ("invoke", "invoke_async"):
                vars(tool).pop(name, None)

    providers = {tool.name: find_provider(tool.function, tool.async_function, tool) for tool in tools}
    adapter = _open_adapter(engine, options, restore)
    agent.chat_generator = ContextChatGenerator(own, engine, user=user, adapter=adapter)
    for point in _POINTS:
        hooks[point] = _RunHook(adapter, session, point, providers)
        agent.hooks.setdefault(point, []).append(hooks[point])
    for tool in tools:
        _watch_tool(tool)
    return Attachment(adapter)


class _RunHook:
    """Hook of an agent for one point of its runs: it begins them, records tool calls, or ends them."""

    def __init__(
        self,
        adapter: ContextAdapter,
        session: str | Callable[[Any], str] | None,
        point: str,
        providers: Mapping[str, ToolProvider | None],
    ) -> None:
        self._adapter, self._session, self._point, self._providers = adapter, session, point, providers

    def run(self, state: Any) -> None:
        if (work := self._choose(state)) is not None:
            self._adapter.run_blocking(work)

    async def run_async(self, state: Any) -> None:
        if (work := self._choose(state)) is not None:
            await work()

    def to_dict(self) -> dict[str, Any]:
        """Raise ConfigError: an engine cannot be saved with an agent."""
        raise ConfigError(
            "The agent has an adapter; detach it before the agent is saved, and attach it again after loading."
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> _RunHook:
        """Raise ConfigError: see `to_dict`."""
        raise ConfigError("An adapter is not loaded with an agent; attach it after loading.")

    def _choose(self, state: Any) -> Callable[[], Any] | None:
        """Return the function to await at this point, None if there is none."""
        run = _RUN.get()
        if self._point == hook_points.BEFORE_RUN:
            _RUN.set(_Run(self._adapter, self._session_of(state), uuid4().hex, outer=run))
            return None
        if run is None or run.adapter is not self._adapter:
            return None
        messages = state.data["messages"]
        if self._point == hook_points.AFTER_TOOL:
            return partial(self._record_tools, run, messages)
        _RUN.set(run.outer)
        return partial(self._end, run, messages)

    async def _record_tools(self, run: _Run, messages: Sequence[ChatMessage]) -> None:
        for result in _newest_results(messages):
            waiting = run.done[_name_call(result.origin.tool_name, result.origin.arguments)]
            failed = result.result if isinstance(result.result, str) else "failed"
            outcome, duration_ms = (
                waiting.popleft()
                if waiting
                else (ToolOutcome(error=failed if result.error else None, result=failed), 0)
            )
            call = (result.origin, duration_ms)
            provider = self._providers.get(result.origin.tool_name)
            await self._adapter.on_tool_call_end(run.session_id, call, outcome, turn_key=run.key, provider=provider)

    async def _end(self, run: _Run, messages: Sequence[ChatMessage]) -> None:
        last = messages[-1] if messages else ChatMessage.from_assistant("")
        text = str(last.tool_call_result.result) if last.tool_call_result is not None else _text_of(last)
        await self._adapter.on_turn_end(run.session_id, text, turn_key=run.key)

    def _session_of(self, state: Any) -> str:
        held = state.data.get("hook_context") or {}
        session_id = (self._session(state) if callable(self._session) else self._session) or held.get("session_id")
        if not session_id:
            raise ConfigError(
                'The run names no session. Give attach session=..., or the run hook_context={"session_id": ...}.'
            )
        return str(session_id)


@component
class DocumentRecorder:
    """Pipeline component that records a search of a retriever as a tool call, stores the documents as evidence
    (`rag_doc`) of a session, and passes the documents on. Put the component after a retriever.

    `retriever` is that retriever or its name; the tool call has its name (None: `retriever`).
    """

    def __init__(self, adapter: ContextAdapter, session: str | None = None, retriever: Any = None) -> None:
        self._adapter, self._session = adapter, session
        name = (
            retriever if isinstance(retriever, str) else "retriever" if retriever is None else type(retriever).__name__
        )
        provider = None if isinstance(retriever, str) else find_provider(retriever)
        self._call = ToolCall(tool_call_id="", tool=name, provider=provider)

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document], session_id: str | None = None, query: str = "") -> dict[str, Any]:
        """Store the documents and return them unchanged. Raises ConfigError if no session is named. `session_id` is the
        session (None: the session of this component).
        """
        block, found = self._adapter.run_blocking, _found(documents)
        block(self._adapter.on_documents, self._named(session_id), found, query=query, call=self._call)
        return {"documents": documents}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, documents: list[Document], session_id: str | None = None, query: str = ""
    ) -> dict[str, Any]:
        """Store the documents and return them unchanged. Raises ConfigError if no session is named. `session_id` is the
        session (None: the session of this component).
        """
        named, found = self._named(session_id), _found(documents)
        await self._adapter.on_documents(named, found, query=query, call=self._call)
        return {"documents": documents}

    def to_dict(self) -> dict[str, Any]:
        """Raise ConfigError, because an engine cannot be saved with a pipeline."""
        raise _cannot_be_saved("DocumentRecorder")

    def _named(self, session_id: str | None) -> str:
        if not (session_id or self._session):
            raise ConfigError("No session is named: give DocumentRecorder session=..., or its input session_id.")
        return session_id or str(self._session)


@component
class ContextRetriever:
    """Pipeline component that returns the memories of a session that match a query, as documents, the best first."""

    def __init__(self, recall: SessionRecall) -> None:
        self._recall = recall

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None) -> dict[str, Any]:
        """Return at most `top_k` documents for `query`."""
        return {"documents": [_to_document(each) for each in self._recall.recall_blocking(query, top_k)]}

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str, top_k: int | None = None) -> dict[str, Any]:
        """Return at most `top_k` documents for `query`."""
        return {"documents": [_to_document(each) for each in await self._recall.recall(query, top_k)]}

    def to_dict(self) -> dict[str, Any]:
        """Raise ConfigError, because an engine cannot be saved with a pipeline."""
        raise _cannot_be_saved("ContextRetriever")


def _cannot_be_saved(name: str) -> ConfigError:
    return ConfigError(f"{name} works on an engine, which is not saved with a pipeline; add it again after loading.")


def _open_adapter(
    engine: ContextEngine | SyncEngine, options: AdapterOptions, restore: Callable[[], None] | None = None
) -> ContextAdapter:
    hooks = [(hook_points, name) for name in _NEEDED] + [(Tool, "invoke"), (Tool, "invoke_async")]
    version = check_framework(REQUIREMENT, hooks)
    return ContextAdapter(engine, HaystackMapper(), options, version=version, restore=restore)


def _async_tap(adapter: ContextAdapter, listener: Any, call: _Call) -> Callable[[StreamingChunk], Any]:
    async def tap(chunk: StreamingChunk) -> None:
        if chunk.content:
            await adapter.on_chunk(call.session_id, chunk.content, turn_key=call.request.turn_key)
        await listener(chunk)

    return tap


def _watch_tool(tool: Tool) -> None:
    """Record the result or error of a tool, and its duration, in the run that calls it."""
    invoke, invoke_async = tool.invoke, tool.invoke_async

    def watched(**arguments: Any) -> Any:
        since = perf_counter()
        try:
            result = invoke(**arguments)
        except Exception as error:
            _note(tool.name, arguments, ToolOutcome(error=error), since)
            raise
        _note(tool.name, arguments, ToolOutcome(result=_to_value(result)), since)
        return result

    async def watched_async(**arguments: Any) -> Any:
        if tool.async_function is None:
            return await asyncio.to_thread(watched, **arguments)
        since = perf_counter()
        try:
            result = await invoke_async(**arguments)
        except Exception as error:
            _note(tool.name, arguments, ToolOutcome(error=error), since)
            raise
        _note(tool.name, arguments, ToolOutcome(result=_to_value(result)), since)
        return result

    vars(tool).update(invoke=watched, invoke_async=watched_async)


def _note(name: str, arguments: Any, outcome: ToolOutcome, since: float) -> None:
    if (run := _RUN.get()) is not None:
        run.done[_name_call(name, arguments)].append((outcome, round((perf_counter() - since) * 1000)))


def _name_call(name: str, arguments: Any) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True, default=str)}"


def _to_value(result: Any) -> Any:
    return result if write_result(result) is not None else str(result)


def _newest_results(messages: Sequence[ChatMessage]) -> list[Any]:
    """Return the results of the newest step: those at the end of the messages."""
    results: list[Any] = []
    for message in reversed(messages):
        if not message.tool_call_results:
            break
        results = [*message.tool_call_results, *results]
    return results


def _found(documents: Sequence[Document]) -> list[Any]:
    return [document_from(each.content or "", each.meta, name="retriever", score=each.score) for each in documents]


def _to_document(found: RecalledText) -> Document:
    return Document(id=found.entry_id, content=found.text, meta=found.metadata, score=found.score)


def _without_none(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _read_answer(replies: Sequence[ChatMessage]) -> tuple[ModelAnswer, Any]:
    if not replies:
        return ModelAnswer(), None
    said = replies[0]
    answer = ModelAnswer(text=_text_of(said), tool_calls=len(said.tool_calls), model=str(said.meta.get("model") or ""))
    return answer, said.meta.get("usage") or None


def _text_of(message: ChatMessage) -> str:
    texts = message.texts
    return "\n".join(texts) if texts else " ".join(f"[{type(part).__name__}]" for part in message._content)


def _to_message(role: str, content: str) -> ChatMessage:
    if role == Role.SYSTEM.value:
        return ChatMessage.from_system(content)
    return ChatMessage.from_assistant(content) if role == Role.ASSISTANT.value else ChatMessage.from_user(content)


def _to_plain(message: ChatMessage) -> list[dict[str, Any]]:
    """Return a message of the tail in OpenAI's form, to check its cost and its pairs."""
    results = message.tool_call_results
    if results:
        return [{"role": "tool", "tool_call_id": each.origin.id, "content": str(each.result)} for each in results]
    text = "\n".join(message.texts)
    calls = [
        {"id": each.id, "function": {"name": each.tool_name, "arguments": json.dumps(each.arguments, default=str)}}
        for each in message.tool_calls
    ]
    return [{"role": message.role.value, "content": text, **({"tool_calls": calls} if calls else {})}]
