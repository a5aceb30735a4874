"""Connects agents of AutoGen (autogen-agentchat 0.7) with an engine: single assistant agents and group chats.

    context = AgentContext(engine)
    context.attach(agent, session="s1")
    await agent.run(task="Hello.")

An agent has one model context, so it has one session. In a group chat, give each agent its own session. The session of
an agent gets the words of the other agents as messages with their authors. Only the input of the model client is
changed, never the agent's model context.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from time import perf_counter
from typing import Any
from uuid import uuid4

from jacquard import ConfigError, ContextEngine
from jacquard.integrations.core.adapter import ContextAdapter
from jacquard.integrations.core.mapping import document_from, find_provider, read_arguments, write_result
from jacquard.integrations.core.prompt import join_system
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
from mnemosyne import Author, AuthorKind, Message, ModelUsage, Role, ToolCall, ToolProvider

REQUIREMENT = Requirement(extra="autogen", distribution="autogen-agentchat", floor="0.7.5")

try:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.base import Response
    from autogen_agentchat.messages import MemoryQueryEvent
    from autogen_core.models import (
        AssistantMessage,
        ChatCompletionClient,
        CreateResult,
        FunctionExecutionResultMessage,
        RequestUsage,
        SystemMessage,
        UserMessage,
    )
    from autogen_core.tools import ToolResult
except ImportError as error:
    raise explain_missing(REQUIREMENT, error) from error

_USER = "user"


class AutoGenMapper:
    """Converts messages, tool calls and usage of AutoGen to values of a session."""

    framework = "autogen"

    def map_message(self, message: Any) -> Message:
        """Return a message of a chat or of a model context. If an agent wrote the message, this agent is its author."""
        is_answer = isinstance(message, AssistantMessage)
        text = message.to_model_text() if hasattr(message, "to_model_text") else _text_of(message.content)
        kind = AuthorKind.USER if message.source == _USER else AuthorKind.AGENT
        return Message(
            role=Role.ASSISTANT if is_answer else Role.USER,
            content=text,
            message_id=str(getattr(message, "id", "") or ""),
            author=None if message.source == _USER else Author(kind=kind, id=message.source),
        )

    def map_tool_call(self, call: Any) -> ToolCall:
        """Return a tool call from its parts (id, name, arguments)."""
        call_id, name, arguments = call
        return ToolCall(tool_call_id=call_id or name, tool=name, args_digest=read_arguments(arguments))

    def map_model_usage(self, usage: Any) -> ModelUsage:
        """Return the token counts of a `RequestUsage`."""
        asked, answered = usage.prompt_tokens, usage.completion_tokens
        return ModelUsage(
            model_usage_id="", prompt_tokens=asked, completion_tokens=answered, total_tokens=asked + answered
        )


class AgentContext:
    """Attaches agents to an engine. All agents of one object share one report.

    `failure`, `document_tools` and `record_chunks` are described at `AdapterOptions`. Raises FrameworkError if AutoGen
    is too old or lacks a hook.
    """

    def __init__(
        self,
        engine: ContextEngine | SyncEngine,
        *,
        failure: FailurePolicy | str = FailurePolicy.OPEN,
        document_tools: Collection[str] = (),
        record_chunks: bool = True,
    ) -> None:
        version = check_framework(
            REQUIREMENT, [(AssistantAgent, "on_messages_stream"), (ChatCompletionClient, "create")]
        )
        options = AdapterOptions(
            failure=FailurePolicy(failure), document_tools=frozenset(document_tools), record_chunks=record_chunks
        )
        self._attached: list[_AttachedAgent] = []
        self.adapter = ContextAdapter(engine, AutoGenMapper(), options, version=version, restore=self._restore)

    @property
    def report(self) -> AdapterReport:
        """Counts of the adapter's actions so far, and its problems."""
        return self.adapter.report

    def attach(self, agent: AssistantAgent, *, session: str, user: str | None = None) -> None:
        """Add the engine's prompt to every model call of `agent`, and record its actions in the session `session`.

        Raises FrameworkError if the agent lacks a part that the adapter needs. Raises ConfigError if the agent is
        already attached. `user` is the id of the user (None: unknown).
        """
        check_framework(REQUIREMENT, [(agent, "_model_client"), (agent, "_workbench")])
        if isinstance(agent._model_client, _ContextClient):
            raise ConfigError(
                f"Agent {agent.name!r} is attached already; detach the first adapter before attaching another."
            )
        self._attached.append(_AttachedAgent(self.adapter, agent, session, user))

    def detach(self) -> None:
        """Give all agents their own model clients and tools back."""
        self.adapter.detach()

    def _restore(self) -> None:
        for each in self._attached:
            each.restore()
        self._attached.clear()


class _AttachedAgent:
    """One agent with its session, and the running run."""

    def __init__(self, adapter: ContextAdapter, agent: Any, session_id: str, user_id: str | None) -> None:
        self.adapter, self.session_id, self._user_id = adapter, session_id, user_id
        self._agent, self._client, self._own_run = agent, agent._model_client, agent.on_messages_stream
        self.key, self._incoming, self._user_place = "", [], None  # type: tuple[str, list[Any], int | None]
        self._outcomes: dict[str, ToolOutcome] = {}
        self._replaced: list[tuple[Any, str]] = []
        agent._model_client = _ContextClient(self._client, self)
        self._replace(agent, "on_messages_stream", self._run)
        for workbench in agent._workbench:
            self._replace(workbench, "call_tool", self._watch_call(workbench))
            if hasattr(workbench, "call_tool_stream"):
                self._replace(workbench, "call_tool_stream", self._watch_stream(workbench))
            for tool in getattr(workbench, "_tools", ()):
                self._replace(tool, "run_json", self._watch_tool(tool.run_json))

    def restore(self) -> None:
        """Restore the agent's original parts."""
        self._agent._model_client = self._client
        for owner, name in self._replaced:
            vars(owner).pop(name, None)

    async def _run(self, messages: Sequence[Any], cancellation_token: Any) -> AsyncGenerator[Any, None]:
        """Run the agent on its new messages; the last of them is the one that the turn answers."""
        self.key, self._incoming, self._user_place = uuid4().hex, list(messages), None
        self._outcomes.clear()
        is_done, since = False, perf_counter()
        try:
            async for item in self._own_run(messages, cancellation_token):
                if isinstance(item, MemoryQueryEvent):
                    await self._record_search(item, round((perf_counter() - since) * 1000))
                if isinstance(item, Response):
                    is_done = True
                    author = Author(kind=AuthorKind.AGENT, id=self._agent.name)
                    text = item.chat_message.to_model_text()
                    reply = Message(role=Role.ASSISTANT, content=text, author=author)
                    await self.adapter.on_turn_end(self.session_id, reply, turn_key=self.key)
                yield item
                since = perf_counter()
        finally:
            if not is_done:
                await self.adapter.on_turn_failed(self.session_id, turn_key=self.key)

    async def _record_search(self, event: Any, duration_ms: int) -> None:
        """Record a search of the agent's memory. AutoGen names the memory only if the agent has a single one, and lets a
        memory search for the newest message.
        """
        memories: Any = getattr(self._agent, "_memory", None) or ()
        memory: Any = next(iter(memories)) if len(memories) == 1 else None
        name = "memory" if memory is None else type(memory).__name__
        call = ToolCall(tool_call_id="", tool=name, provider=find_provider(memory), duration_ms=duration_ms)
        query = self.adapter.map_message(self._incoming[-1]).content if self._incoming else ""
        await self.adapter.on_documents(self.session_id, _documents(event), query=query, turn_key=self.key, call=call)

    async def prepare(self, messages: Sequence[Any], tools: Sequence[Any]) -> tuple[InjectedPrompt | None, list[Any]]:
        """Return our prompt and the messages with it; raises ConfigError if none of the messages can be answered by a turn."""
        items = list(messages)
        place = self._user_place
        if place is None or place >= len(items):
            place = next((n for n in reversed(range(len(items))) if isinstance(items[n], UserMessage)), None)
        if place is None:
            raise ConfigError("The agent has no message that a turn could answer.")
        self._user_place = place
        before, user, tail = items[:place], items[place], items[place + 1 :]
        own = "\n\n".join(message.content for message in _leading_systems(before))
        map_message, incoming = self.adapter.map_message, self._incoming
        history = (map_message(each) for each in before if isinstance(each, UserMessage) or _is_text(each))
        request = ModelRequest(
            turn_key=self.key,
            user=map_message(incoming[-1] if incoming else user),
            history=tuple(message for message in history if message.content),
            before=tuple(map_message(each) for each in incoming[:-1]),
            tail=tuple(plain for each in tail for plain in _to_plain(each)),
            is_bare=not (own or tools),
            user_id=self._user_id,
            agent=self._agent.name,
        )
        prompt = await self.adapter.on_before_model_call(self.session_id, request)
        return (None, items) if prompt is None else (prompt, [*_inject(prompt, own, user), *tail])

    async def record(self, result: CreateResult) -> None:
        """Record the usage of a model call."""
        calls = 0 if isinstance(result.content, str) else len(result.content)
        model = str(getattr(self._client, "_create_args", {}).get("model", ""))
        usage = result.usage if result.usage.prompt_tokens or result.usage.completion_tokens else None
        answer = ModelAnswer(tool_calls=calls, model=model)
        await self.adapter.on_after_model_call(self.session_id, answer, usage, turn_key=self.key)

    def _replace(self, owner: Any, name: str, method: Any) -> None:
        vars(owner)[name] = method
        self._replaced.append((owner, name))

    def _watch_tool(self, run_json: Callable[..., Any]) -> Callable[..., Any]:
        """Record the result or error of a tool before AutoGen makes text of it."""

        async def watched(args: Any, cancellation_token: Any, call_id: str | None = None) -> Any:
            try:
                result = await run_json(args, cancellation_token, call_id=call_id)
            except Exception as error:
                self._outcomes[call_id or ""] = ToolOutcome(error=error)
                raise
            if write_result(result) is not None:
                self._outcomes[call_id or ""] = ToolOutcome(result=result)
            return result

        return watched

    def _watch_call(self, workbench: Any) -> Callable[..., Any]:
        call_tool = workbench.call_tool

        async def watched(
            name: str,
            arguments: Mapping[str, Any] | None = None,
            cancellation_token: Any = None,
            call_id: str | None = None,
        ) -> ToolResult:
            call = (call_id, name, arguments)
            await self.adapter.on_tool_call_start(self.session_id, call, turn_key=self.key)
            result = await call_tool(name, arguments, cancellation_token, call_id)
            await self._end_call(call, result, _provider_of(workbench, name))
            return result

        return watched

    def _watch_stream(self, workbench: Any) -> Callable[..., Any]:
        call_tool_stream = workbench.call_tool_stream

        async def watched(
            name: str,
            arguments: Mapping[str, Any] | None = None,
            cancellation_token: Any = None,
            call_id: str | None = None,
        ) -> AsyncGenerator[Any, None]:
            call = (call_id, name, arguments)
            await self.adapter.on_tool_call_start(self.session_id, call, turn_key=self.key)
            async for item in call_tool_stream(name, arguments, cancellation_token, call_id):
                if isinstance(item, ToolResult):
                    await self._end_call(call, item, _provider_of(workbench, name))
                yield item

        return watched

    async def _end_call(
        self, call: tuple[str | None, str, Any], result: ToolResult, provider: ToolProvider | None
    ) -> None:
        text = result.to_text()
        seen = self._outcomes.pop(call[0] or "", None)
        outcome = seen or (ToolOutcome(error=text or "failed") if result.is_error else ToolOutcome(result=text))
        await self.adapter.on_tool_call_end(self.session_id, call, outcome, turn_key=self.key, provider=provider)


class _ContextClient(ChatCompletionClient):
    """Model client that adds our prompt to the input of another one."""

    def __init__(self, inner: ChatCompletionClient, attached: _AttachedAgent) -> None:
        self._inner, self._attached = inner, attached

    async def create(self, messages: Sequence[Any], *, tools: Sequence[Any] = (), **kwargs: Any) -> CreateResult:
        prompt, items = await self._attached.prepare(messages, tools)
        if prompt is not None and prompt.reply is not None:
            return _result_of(prompt.reply)
        result = await self._inner.create(items, tools=tools, **kwargs)
        if prompt is not None:
            await self._attached.record(result)
        return result

    async def create_stream(
        self, messages: Sequence[Any], *, tools: Sequence[Any] = (), **kwargs: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        prompt, items = await self._attached.prepare(messages, tools)
        if prompt is not None and prompt.reply is not None:
            yield prompt.reply
            yield _result_of(prompt.reply)
            return
        attached = self._attached
        async for item in self._inner.create_stream(items, tools=tools, **kwargs):
            if isinstance(item, CreateResult) and prompt is not None:
                await attached.record(item)
            elif isinstance(item, str) and prompt is not None:
                await attached.adapter.on_chunk(attached.session_id, item, turn_key=attached.key)
            yield item

    async def close(self) -> None:
        await self._inner.close()

    def actual_usage(self) -> RequestUsage:
        return self._inner.actual_usage()

    def total_usage(self) -> RequestUsage:
        return self._inner.total_usage()

    def count_tokens(self, messages: Sequence[Any], **kwargs: Any) -> int:
        return self._inner.count_tokens(messages, **kwargs)

    def remaining_tokens(self, messages: Sequence[Any], **kwargs: Any) -> int:
        return self._inner.remaining_tokens(messages, **kwargs)

    @property
    def capabilities(self) -> Any:
        return self._inner.capabilities

    @property
    def model_info(self) -> Any:
        return self._inner.model_info

    def dump_component(self) -> Any:
        """Return the other client, which can be loaded without an engine."""
        return self._inner.dump_component()


def _result_of(text: str) -> CreateResult:
    usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
    return CreateResult(finish_reason="stop", content=text, usage=usage, cached=False)


def _provider_of(workbench: Any, tool_name: str) -> ToolProvider | None:
    """Return the provider of a tool: the MCP server of its workbench, else the module of its function."""
    tools = getattr(workbench, "_tools", None) or ()
    tool = next((each for each in tools if each.name == tool_name), None)
    stated = getattr(workbench, "initialize_result", None)
    server = getattr(getattr(stated, "serverInfo", None), "name", "")
    return find_provider(getattr(tool, "_func", None), tool, workbench, name=server)


def _leading_systems(messages: Sequence[Any]) -> list[Any]:
    """Return the agent's own system messages; later ones are its memory's results for earlier messages."""
    leading: list[Any] = []
    for message in messages:
        if not isinstance(message, SystemMessage):
            break
        leading.append(message)
    return leading


def _inject(prompt: InjectedPrompt, own: str, user: Any) -> list[Any]:
    """Return our messages with the agent's own system text; the images of the user's message stay."""
    *earlier, asked = prompt.messages
    others = [] if isinstance(user.content, str) else [part for part in user.content if not isinstance(part, str)]
    content: Any = [asked.content, *others] if others else asked.content
    return [
        SystemMessage(content=join_system(own, prompt)),
        *(_to_message(part.role, part.content) for part in earlier),
        user.model_copy(update={"content": content}),
    ]


def _to_message(role: str, content: str) -> Any:
    if role == Role.SYSTEM.value:
        return SystemMessage(content=content)
    if role == Role.ASSISTANT.value:
        return AssistantMessage(content=content, source="assistant")
    return UserMessage(content=content, source=_USER)


def _is_text(message: Any) -> bool:
    return isinstance(message, AssistantMessage) and isinstance(message.content, str)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = [part for part in content if isinstance(part, str)]
    return "\n".join(texts) if texts else " ".join(f"[{type(part).__name__}]" for part in content)


def _to_plain(message: Any) -> list[dict[str, Any]]:
    """Return a message of the tail in OpenAI's form, to check its cost and its pairs."""
    if isinstance(message, FunctionExecutionResultMessage):
        return [{"role": "tool", "tool_call_id": each.call_id, "content": each.content} for each in message.content]
    if isinstance(message, AssistantMessage) and not isinstance(message.content, str):
        calls = [
            {"id": each.id, "function": {"name": each.name, "arguments": each.arguments}} for each in message.content
        ]
        return [{"role": "assistant", "content": message.thought or "", "tool_calls": calls}]
    role = (
        "assistant"
        if isinstance(message, AssistantMessage)
        else "system"
        if isinstance(message, SystemMessage)
        else "user"
    )
    return [{"role": role, "content": _text_of(message.content)}]


def _documents(event: Any) -> list[Any]:
    """Return the results of the agent's memory."""
    texts = [
        (each, each.content if isinstance(each.content, str) else write_result(each.content)) for each in event.content
    ]
    return [document_from(text, each.metadata or {}, name="memory") for each, text in texts if text]
