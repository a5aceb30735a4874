"""Connects an agent of Microsoft Agent Framework with an engine, by three middlewares.

    context = AgentContextMiddleware(engine)
    agent = Agent(client=client, middleware=context.middleware)
    await agent.run("Hello.", session=agent.create_session(session_id="s1"))

The engine's session has the same id as the session of the framework. Only the messages of a model call are changed, never
the messages that the framework stores. Do not use the middlewares if the service of the model provider stores the
conversation, because it would store every sent message, also those that the engine adds.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any
from uuid import uuid4

from jacquard import ConfigError, ContextEngine
from jacquard.integrations.core.adapter import ContextAdapter
from jacquard.integrations.core.mapping import find_provider, read_arguments, write_result
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
from mnemosyne import Author, AuthorKind, Message, ModelUsage, Role, ToolCall
from mnemosyne.values import dataclass

REQUIREMENT = Requirement(extra="agent-framework", distribution="agent-framework-core", floor="1.23")

try:
    from agent_framework import AgentMiddleware, ChatMiddleware, ChatResponse, Content, FunctionMiddleware
    from agent_framework import Message as ChatMessage
except ImportError as error:
    raise explain_missing(REQUIREMENT, error) from error

_OWNERS = (AgentMiddleware, ChatMiddleware, FunctionMiddleware)
Next = Callable[[], Awaitable[None]]


class AgentFrameworkMapper:
    """Converts messages, tool calls and usage of Agent Framework to values of a session."""

    framework = "agent_framework"

    def map_message(self, message: Any) -> Message:
        """Return a message with its role, text, id and author."""
        role = Role.ASSISTANT if message.role == "assistant" else Role.USER
        kind = AuthorKind.AGENT if role is Role.ASSISTANT else AuthorKind.USER
        author = Author(kind=kind, id=message.author_name) if message.author_name else None
        return Message(role=role, content=_text_of(message), message_id=message.message_id or "", author=author)

    def map_tool_call(self, call: Any) -> ToolCall:
        """Return the tool call of a `FunctionInvocationContext`."""
        name = call.function.name
        arguments = call.arguments.model_dump(mode="json") if hasattr(call.arguments, "model_dump") else call.arguments
        call_id = str(call.metadata.get("call_id") or name)
        provider = _provider_of(call.function)
        return ToolCall(tool_call_id=call_id, tool=name, provider=provider, args_digest=read_arguments(arguments))

    def map_model_usage(self, usage: Any) -> ModelUsage:
        """Return the token counts of a `UsageDetails`."""
        asked, answered = usage.get("input_token_count") or 0, usage.get("output_token_count") or 0
        total = usage.get("total_token_count") or asked + answered
        return ModelUsage(model_usage_id="", prompt_tokens=asked, completion_tokens=answered, total_tokens=total)


@dataclass(slots=True)
class _Run:
    key: str
    user_place: int | None = None
    is_sent: bool = False


class AgentContextMiddleware:
    """Adds the engine's prompt to every model call of an agent, and records the agent's actions.

    Pass the list `middleware` to the agent. `session` is a session id, or a function that returns a session id for the
    framework's `AgentSession` (its argument is None if a run has no session). Without `session`, the id of the run's
    session is used. `user` is a user id, or a function that returns a user id for the same argument. `failure`,
    `document_tools`, `record_chunks` and `system_in_place` are described at `AdapterOptions`. Raises FrameworkError if
    the framework is too old or lacks a hook.
    """

    def __init__(
        self,
        engine: ContextEngine | SyncEngine,
        *,
        session: str | Callable[[Any], str] | None = None,
        user: str | Callable[[Any], str | None] | None = None,
        failure: FailurePolicy | str = FailurePolicy.OPEN,
        document_tools: Collection[str] = (),
        record_chunks: bool = True,
        system_in_place: bool = False,
    ) -> None:
        version = check_framework(REQUIREMENT, [(owner, "process") for owner in _OWNERS])
        options = AdapterOptions(
            failure=FailurePolicy(failure),
            document_tools=frozenset(document_tools),
            record_chunks=record_chunks,
            system_in_place=system_in_place,
        )
        self.adapter = ContextAdapter(engine, AgentFrameworkMapper(), options, version=version)
        self.middleware: list[Any] = [_Runs(self), _ModelCalls(self), _ToolCalls(self)]
        self.runs: dict[str, _Run] = {}
        self.waiting: dict[str, _Run] = {}
        self._session, self._user = session, user

    @property
    def report(self) -> AdapterReport:
        """Counts of the adapter's actions so far, and its problems."""
        return self.adapter.report

    def detach(self) -> None:
        """Let all later calls pass unchanged."""
        self.adapter.detach()

    def session_of(self, session: Any) -> str:
        """Return the session id of a run. Raises ConfigError if neither the middleware nor the run names a session."""
        named = self._session(session) if callable(self._session) else self._session
        session_id = named or getattr(session, "session_id", None)
        if not session_id:
            raise ConfigError(
                "The run names no session. Give it one, agent.run(..., session=agent.create_session()), or give "
                "AgentContextMiddleware session=..."
            )
        return str(session_id)

    def user_of(self, session: Any) -> str | None:
        """Return the user id of a run. Return None if no user is named."""
        return self._user(session) if callable(self._user) else self._user


class _Runs(AgentMiddleware):
    """Begins and ends turns."""

    def __init__(self, context: AgentContextMiddleware) -> None:
        self._context = context

    async def process(self, context: Any, call_next: Next) -> None:
        if not self._context.adapter.is_attached:
            await call_next()
            return
        adapter, session_id = self._context.adapter, self._context.session_of(context.session)
        waiting, answers = self._context.waiting.pop(session_id, None), any(map(_is_approval, context.messages))
        run = waiting if waiting is not None and answers else _Run(uuid4().hex)
        self._context.runs[session_id] = run
        try:
            await call_next()
        except BaseException:
            self._context.runs.pop(session_id, None)
            await adapter.on_turn_failed(session_id, turn_key=run.key)
            raise

        async def end(response: Any) -> Any:
            self._context.runs.pop(session_id, None)
            if response.user_input_requests:
                # The answer comes with a later run, which contains the approval.
                self._context.waiting[session_id] = run
                return response
            await adapter.on_turn_end(session_id, response.text, turn_key=run.key)
            return response

        if context.stream:
            context.result.with_result_hook(end)
        else:
            await end(context.result)


class _ModelCalls(ChatMiddleware):
    """Adds our prompt to a model call, and records its usage."""

    def __init__(self, context: AgentContextMiddleware) -> None:
        self._context = context

    async def process(self, context: Any, call_next: Next) -> None:
        if not self._context.adapter.is_attached:
            await call_next()
            return
        shared, adapter = self._context, self._context.adapter
        session_id = shared.session_of(context.session)
        run = shared.runs.setdefault(session_id, _Run(uuid4().hex))
        messages = list(context.messages)
        place = _find_user(messages, run)
        if place is None:
            await call_next()
            return
        before, user, tail = messages[:place], messages[place], messages[place + 1 :]
        options = dict(context.options or {})
        systems = [message for message in before if message.role in ("system", "developer")]
        own = "\n\n".join(text for text in (str(options.get("instructions") or ""), *map(_text_of, systems)) if text)
        history = (adapter.map_message(each) for each in before if each.role in ("user", "assistant"))
        request = ModelRequest(
            turn_key=run.key,
            user=adapter.map_message(user),
            history=tuple(message for message in history if message.content),
            tail=tuple(plain for each in tail for plain in _to_plain(each)),
            is_bare=not (own or options.get("tools")),
            user_id=shared.user_of(context.session),
        )
        prompt = await adapter.on_before_model_call(session_id, request)
        if prompt is None:
            await call_next()
            return
        if prompt.reply is not None and not context.stream:
            context.result = ChatResponse(messages=[ChatMessage("assistant", [prompt.reply])])
            return
        context.options = {name: value for name, value in options.items() if name != "instructions"}
        context.messages = [*_inject(prompt, own, user), *tail]

        async def record(response: Any) -> Any:
            calls = sum(part.type == "function_call" for each in response.messages for part in each.contents)
            answer = ModelAnswer(tool_calls=calls, model=response.model or "")
            await adapter.on_after_model_call(session_id, answer, response.usage_details or None, turn_key=run.key)
            return response

        async def take(update: Any) -> Any:
            await adapter.on_chunk(session_id, update.text or "", turn_key=run.key)
            return update

        if context.stream:
            context.stream_transform_hooks = [*context.stream_transform_hooks, take]
            context.stream_result_hooks = [*context.stream_result_hooks, record]
            await call_next()
        else:
            await call_next()
            await record(context.result)


class _ToolCalls(FunctionMiddleware):
    """Records tool calls; a tool's error is raised unchanged."""

    def __init__(self, context: AgentContextMiddleware) -> None:
        self._context = context

    async def process(self, context: Any, call_next: Next) -> None:
        if not self._context.adapter.is_attached:
            await call_next()
            return
        adapter, session_id = self._context.adapter, self._context.session_of(context.session)
        await adapter.on_tool_call_start(session_id, context)
        try:
            await call_next()
        except Exception as error:
            await adapter.on_tool_call_end(session_id, context, ToolOutcome(error=error))
            raise
        await adapter.on_tool_call_end(session_id, context, ToolOutcome(result=_result_of(context.result)))


def _provider_of(function: Any) -> Any:
    """Return the provider of a tool: its MCP server, or the module of its function."""
    made = getattr(function, "func", None)
    # A function of an MCP server keeps its server only in the closure.
    held = inspect.getclosurevars(made).nonlocals if inspect.isfunction(made) else {}
    return find_provider(made, function, name=getattr(held.get("mcp_tool"), "name", None) or "")


def _is_approval(message: Any) -> bool:
    return any(part.type == "function_approval_response" for part in message.contents)


def _find_user(messages: Sequence[Any], run: _Run) -> int | None:
    """Return the place of the message that a run answers; None after the first call if the service stores it.

    Raises ConfigError if there is none at all.
    """
    place = run.user_place
    if place is None or place >= len(messages) or messages[place].role != "user":
        place = next((n for n in reversed(range(len(messages))) if messages[n].role == "user"), None)
    if place is None and not run.is_sent:
        raise ConfigError("The messages contain no message of the user, with which a turn begins.")
    run.user_place, run.is_sent = place, True
    return place


def _inject(prompt: InjectedPrompt, own: str, user: Any) -> list[Any]:
    """Return our messages with the agent's own system text; the images and files of the user's message stay."""
    *earlier, asked = prompt.messages
    others = [part for part in user.contents if part.type != "text"]
    contents = [Content.from_text(asked.content), *others]
    return [
        ChatMessage("system", [join_system(own, prompt)]),
        *(ChatMessage(part.role, [part.content]) for part in earlier),
        ChatMessage("user", contents, author_name=user.author_name, message_id=user.message_id),
    ]


def _text_of(message: Any) -> str:
    texts = [part.text for part in message.contents if part.type == "text" and part.text]
    return "\n".join(texts) if texts else " ".join(f"[{part.type}]" for part in message.contents)


def _result_of(result: Any) -> Any:
    """Return the text of a list of contents; any other result unchanged if it is text or JSON."""
    if isinstance(result, list) and all(isinstance(part, Content) for part in result):
        return "\n".join(part.text if part.type == "text" and part.text else f"[{part.type}]" for part in result)
    return result if write_result(result) is not None else str(result)


def _to_plain(message: Any) -> list[dict[str, Any]]:
    """Return a message of the tail in OpenAI's form, to check its cost and its pairs."""
    results = [part for part in message.contents if part.type == "function_result"]
    if results:
        return [{"role": "tool", "tool_call_id": part.call_id, "content": str(part.result or "")} for part in results]
    texts = [part.text for part in message.contents if part.type == "text" and part.text]
    calls = [
        {"id": part.call_id, "function": {"name": part.name, "arguments": str(part.arguments or "")}}
        for part in message.contents
        if part.type == "function_call"
    ]
    return [{"role": message.role, "content": "\n".join(texts), **({"tool_calls": calls} if calls else {})}]
