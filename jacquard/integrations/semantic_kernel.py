"""Connects chat completion agents of Semantic Kernel with an engine.

    context = KernelContext(engine)
    context.attach(agent)
    await agent.get_response("Hello.", thread=ChatHistoryAgentThread(thread_id="s1"))

The session has the id of the thread. Our prompt goes into the chat history of each request to the service, also within
its loop of function calls, but never into the thread. The prompt is passed as messages and never rendered as a
template, so no text in it can become a message.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextvars import ContextVar
from time import perf_counter
from typing import Any
from uuid import uuid4

from jacquard import ConfigError, ContextEngine
from jacquard.integrations.core.adapter import ContextAdapter
from jacquard.integrations.core.mapping import find_provider, read_arguments, read_documents, write_result
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
from mnemosyne.values import dataclass

REQUIREMENT = Requirement(extra="semantic-kernel", distribution="semantic-kernel", floor="1.45")

try:
    from semantic_kernel.agents import ChatCompletionAgent
    from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
    from semantic_kernel.contents import (
        AuthorRole,
        ChatHistory,
        ChatMessageContent,
        FunctionCallContent,
        FunctionResultContent,
        StreamingChatMessageContent,
        TextContent,
    )
    from semantic_kernel.filters import FilterTypes
except ImportError as error:
    raise explain_missing(REQUIREMENT, error) from error

# The service's hooks are its connector's private methods; therefore the extra allows only one minor release.
_WHOLE, _STREAM = "_inner_get_chat_message_contents", "_inner_get_streaming_chat_message_contents"
_RUNS = ("get_response", "invoke", "invoke_stream")


class SemanticKernelMapper:
    """Converts messages, function calls and usage of Semantic Kernel to values of a session."""

    framework = "semantic_kernel"

    def map_message(self, message: Any) -> Message:
        """Return a message with its role and text. The name of a user becomes the author."""
        if message.role == AuthorRole.ASSISTANT:
            return Message(role=Role.ASSISTANT, content=_text_of(message))
        author = Author(kind=AuthorKind.USER, id=message.name) if message.name else None
        return Message(role=Role.USER, content=_text_of(message), author=author)

    def map_tool_call(self, call: Any) -> ToolCall:
        """Return a `FunctionCallContent` as a tool call, with the name by which the model called the function."""
        name = call.name or call.function_name
        return ToolCall(tool_call_id=call.id or name, tool=name, args_digest=read_arguments(call.arguments))

    def map_model_usage(self, usage: Any) -> ModelUsage:
        """Return the token counts of a `CompletionUsage`."""
        asked, answered = usage.prompt_tokens or 0, usage.completion_tokens or 0
        return ModelUsage(
            model_usage_id="", prompt_tokens=asked, completion_tokens=answered, total_tokens=asked + answered
        )


@dataclass(slots=True)
class _Run:
    """Run of an agent: its session and turn, and the text of its newest answer."""

    adapter: ContextAdapter
    session_id: str
    user_id: str | None
    key: str
    user_place: int | None = None
    text: str = ""


_RUN: ContextVar[_Run | None] = ContextVar("jacquard_semantic_kernel_run", default=None)
_CALL: ContextVar[list[BaseException] | None] = ContextVar("jacquard_semantic_kernel_call", default=None)


class KernelContext:
    """Attaches agents to an engine. All agents of one object share one report.

    `failure` and the other options are described at `AdapterOptions`. Raises FrameworkError if Semantic Kernel is too
    old or lacks a hook.
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
        hooks = [(ChatCompletionClientBase, _WHOLE), (ChatCompletionClientBase, _STREAM)]
        hooks += [(FilterTypes, name) for name in ("AUTO_FUNCTION_INVOCATION", "FUNCTION_INVOCATION")]
        version = check_framework(REQUIREMENT, [*hooks, *((ChatCompletionAgent, name) for name in _RUNS)])
        options = AdapterOptions(
            failure=FailurePolicy(failure),
            document_tools=frozenset(document_tools),
            record_chunks=record_chunks,
            system_in_place=system_in_place,
        )
        self.adapter = ContextAdapter(engine, SemanticKernelMapper(), options, version=version, restore=self._restore)
        self._replaced: list[tuple[Any, str]] = []
        self._kernels: list[Any] = []
        self._filters = {
            FilterTypes.AUTO_FUNCTION_INVOCATION: self._record_call,
            FilterTypes.FUNCTION_INVOCATION: self._watch_function,
        }

    @property
    def report(self) -> AdapterReport:
        """Counts of the adapter's actions so far, and its problems."""
        return self.adapter.report

    def detach(self) -> None:
        """Give agents, services and kernels their original methods back."""
        self.adapter.detach()

    def attach(
        self,
        agent: ChatCompletionAgent,
        *,
        session: str | Callable[[Any], str] | None = None,
        user: str | Callable[[Any], str | None] | None = None,
    ) -> None:
        """Add the engine's prompt to every model call of an agent, and record its actions.

        `session` and `user` are ids, or functions that return them for the run's thread. If `session` is None, the id
        of the thread is used. Raises ConfigError if the agent is already attached.
        """
        if _RUNS[0] in vars(agent):
            raise ConfigError(
                f"Agent {agent.name!r} is attached already; detach the first adapter before attaching another."
            )

        async def begin(options: dict[str, Any]) -> _Run:
            thread: Any = options.get("thread")
            self._watch_kernel(options.get("kernel") or agent.kernel)
            named = session(thread) if callable(session) else session
            if not named:
                named = await _id_of(thread)
            user_id = user(thread) if callable(user) else user
            return _Run(self.adapter, str(named), user_id, uuid4().hex)

        get_response, invoke, invoke_stream = (getattr(agent, name) for name in _RUNS)

        async def watched_response(*args: Any, **options: Any) -> Any:
            run = await begin(options)
            async with _Running(run):
                return await get_response(*args, **options)

        def watch(own: Callable[..., Any]) -> Callable[..., Any]:
            async def watched(*args: Any, **options: Any) -> AsyncIterator[Any]:
                run = await begin(options)
                async with _Running(run):
                    async for item in own(*args, **options):
                        yield item

            return watched

        self._watch_kernel(agent.kernel)
        self._replace(agent, "get_response", watched_response)
        self._replace(agent, "invoke", watch(invoke))
        self._replace(agent, "invoke_stream", watch(invoke_stream))

    def _watch_kernel(self, kernel: Any) -> None:
        """Watch the services and functions of a kernel; a second call does nothing."""
        if not any(each is kernel for each in self._kernels):
            self._kernels.append(kernel)
            for kind, function in self._filters.items():
                kernel.add_filter(kind, function)
        for service in kernel.services.values():
            if isinstance(service, ChatCompletionClientBase) and _WHOLE not in vars(service):
                self._replace(service, _WHOLE, self._watch_whole(getattr(service, _WHOLE)))
                self._replace(service, _STREAM, self._watch_stream(getattr(service, _STREAM)))

    def _replace(self, owner: Any, name: str, method: Any) -> None:
        object.__setattr__(owner, name, method)
        self._replaced.append((owner, name))

    def _restore(self) -> None:
        for owner, name in self._replaced:
            if name in vars(owner):
                object.__delattr__(owner, name)
        for kernel in self._kernels:
            for kind, function in self._filters.items():
                kernel.remove_filter(kind, filter_id=id(function))
        self._replaced.clear()
        self._kernels.clear()

    def _run_of(self) -> _Run | None:
        run = _RUN.get()
        return run if run is not None and run.adapter is self.adapter else None

    def _watch_whole(self, own: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def watched(chat_history: ChatHistory, settings: Any) -> list[ChatMessageContent]:
            run = self._run_of()
            prompt, history = await self._prepare(run, chat_history, settings)
            if prompt is not None and prompt.reply is not None and run is not None:
                run.text = prompt.reply
                return [ChatMessageContent(role=AuthorRole.ASSISTANT, content=prompt.reply)]
            answers: list[ChatMessageContent] = await own(history, settings)
            if run is not None:
                await self._record(run, prompt, answers[:1])
            return answers

        return watched

    def _watch_stream(self, own: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(
            chat_history: ChatHistory, settings: Any, function_invoke_attempt: int = 0
        ) -> AsyncGenerator[Any, None]:
            run = self._run_of()
            prompt, history = await self._prepare(run, chat_history, settings)
            if prompt is not None and prompt.reply is not None and run is not None:
                run.text = prompt.reply
                yield [StreamingChatMessageContent(role=AuthorRole.ASSISTANT, content=prompt.reply, choice_index=0)]
                return
            pieces: list[Any] = []
            async for chunks in own(history, settings, function_invoke_attempt):
                pieces += chunks[:1]
                if run is not None and prompt is not None and chunks and chunks[0].content:
                    await self.adapter.on_chunk(run.session_id, chunks[0].content, turn_key=run.key)
                yield chunks
            if run is not None:
                await self._record(run, prompt, pieces)

        return watched

    async def _prepare(
        self, run: _Run | None, chat_history: ChatHistory, settings: Any
    ) -> tuple[InjectedPrompt | None, ChatHistory]:
        """Return our prompt and a chat history with it; the given one for calls of other agents.

        Raises ConfigError if the history contains no user message.
        """
        if run is None:
            return None, chat_history
        messages = list(chat_history.messages)
        place = run.user_place
        if place is None or place >= len(messages) or messages[place].role != AuthorRole.USER:
            place = next((n for n in reversed(range(len(messages))) if messages[n].role == AuthorRole.USER), None)
        if place is None:
            raise ConfigError("The thread contains no message of the user, with which a turn begins.")
        run.user_place = place
        before, user, tail = messages[:place], messages[place], messages[place + 1 :]
        systems = [message for message in before if message.role in (AuthorRole.SYSTEM, AuthorRole.DEVELOPER)]
        own = "\n\n".join(map(_text_of, systems))
        spoken = [message for message in before if message.role in (AuthorRole.USER, AuthorRole.ASSISTANT)]
        history = (self.adapter.map_message(message) for message in spoken)
        request = ModelRequest(
            turn_key=run.key,
            user=self.adapter.map_message(user),
            history=tuple(message for message in history if message.content),
            tail=tuple(plain for each in tail for plain in _to_plain(each)),
            is_bare=not (own or getattr(settings, "tools", None)),
            user_id=run.user_id,
        )
        prompt = await self.adapter.on_before_model_call(run.session_id, request)
        if prompt is None:
            return None, chat_history
        return prompt, ChatHistory(messages=[*_inject(prompt, own, user), *tail])

    async def _record(self, run: _Run, prompt: InjectedPrompt | None, parts: Sequence[Any]) -> None:
        """Record the usage of a model call, complete or in chunks."""
        calls = {
            call.id or call.index for part in parts for call in part.items if isinstance(call, FunctionCallContent)
        }
        run.text = "" if calls else "".join(part.content or "" for part in parts)
        if prompt is None:
            return
        usages = [usage for part in parts if (usage := part.metadata.get("usage")) is not None]
        model = next((part.ai_model_id for part in parts if part.ai_model_id), "")
        usage = next((each for each in reversed(usages) if each.prompt_tokens or each.completion_tokens), None)
        answer = ModelAnswer(text=run.text, tool_calls=len(calls), model=model)
        await self.adapter.on_after_model_call(run.session_id, answer, usage, turn_key=run.key)

    async def _record_call(self, context: Any, next: Callable[[Any], Awaitable[None]]) -> None:
        """Record a function call; its error, which is not known here, comes from `_watch_function`."""
        run, call = self._run_of(), context.function_call_content
        if run is None or call is None:
            await next(context)
            return
        await self.adapter.on_tool_call_start(run.session_id, call, turn_key=run.key)
        errors: list[BaseException] = []
        token = _CALL.set(errors)
        try:
            await next(context)
        except Exception as error:
            errors.append(error)
            raise
        finally:
            _CALL.reset(token)
            value = context.function_result.value if context.function_result is not None else None
            outcome = ToolOutcome(error=errors[0]) if errors else ToolOutcome(result=_value_of(value))
            provider = _provider_of(context.function)
            await self.adapter.on_tool_call_end(run.session_id, call, outcome, turn_key=run.key, provider=provider)

    async def _watch_function(self, context: Any, next: Callable[[Any], Awaitable[None]]) -> None:
        """Note the error of a function that the model called. Record a search for documents that a prompt template or the
        host made.
        """
        errors, run, since = _CALL.get(), self._run_of(), perf_counter()
        fault: Exception | None = None
        try:
            await next(context)
        except Exception as error:
            fault = error
            if errors is not None:
                errors.append(error)
            raise
        finally:
            name = context.function.fully_qualified_name
            if errors is None and run is not None and name in self.adapter.options.document_tools:
                documents = read_documents(context.result.value) if fault is None and context.result else ()
                call = ToolCall(
                    tool_call_id="",
                    tool=name,
                    args_digest=read_arguments(dict(context.arguments)),
                    duration_ms=round((perf_counter() - since) * 1000),
                    provider=_provider_of(context.function),
                )
                query = str(context.arguments.get("query") or "")
                await self.adapter.on_documents(
                    run.session_id, documents, query=query, turn_key=run.key, call=call, error=fault
                )


class _Running:
    """Duration of one run of an agent; its turn ends with it."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._outer: _Run | None = None

    async def __aenter__(self) -> None:
        self._outer = _RUN.get()
        _RUN.set(self._run)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        run = self._run
        _RUN.set(self._outer)
        if error is None:
            await run.adapter.on_turn_end(run.session_id, run.text, turn_key=run.key)
        else:
            await run.adapter.on_turn_failed(run.session_id, turn_key=run.key)


def _provider_of(function: Any) -> ToolProvider | None:
    """Return the provider of a function: its plugin (for MCP, the plugin is the server), else the module of its method."""
    method = getattr(function, "method", None)
    return find_provider(method, function, name=function.plugin_name or "")


async def _id_of(thread: Any) -> str:
    """Return the id of a thread; raises ConfigError if a run has none."""
    if thread is None:
        raise ConfigError("The run names no session. Give it a thread with an id, or give attach session=...")
    if thread.id is None:
        await thread.create()
    return str(thread.id)


def _inject(prompt: InjectedPrompt, own: str, user: Any) -> list[Any]:
    """Return our messages with the agent's own system text; the images of the user's message stay."""
    *earlier, asked = prompt.messages
    others = [item for item in user.items if not isinstance(item, TextContent)]
    items = [TextContent(text=asked.content), *others]
    return [
        ChatMessageContent(role=AuthorRole.SYSTEM, content=join_system(own, prompt)),
        *(ChatMessageContent(role=AuthorRole(part.role), content=part.content) for part in earlier),
        ChatMessageContent(role=AuthorRole.USER, items=items, name=user.name),
    ]


def _text_of(message: Any) -> str:
    texts = [item.text for item in message.items if isinstance(item, TextContent) and item.text]
    return "\n".join(texts) if texts else " ".join(f"[{type(item).__name__}]" for item in message.items)


def _value_of(value: Any) -> Any:
    return value if write_result(value) is not None else str(value)


def _to_plain(message: Any) -> list[dict[str, Any]]:
    """Return a message of the tail in OpenAI's form, to check its cost and its pairs."""
    results = [item for item in message.items if isinstance(item, FunctionResultContent)]
    if results:
        return [{"role": "tool", "tool_call_id": each.id, "content": str(each.result)} for each in results]
    texts = [item.text for item in message.items if isinstance(item, TextContent) and item.text]
    calls = [
        {"id": item.id, "function": {"name": item.name, "arguments": str(item.arguments or "")}}
        for item in message.items
        if isinstance(item, FunctionCallContent)
    ]
    plain = {"role": message.role.value, "content": "\n".join(texts)}
    return [{**plain, **({"tool_calls": calls} if calls else {})}]
