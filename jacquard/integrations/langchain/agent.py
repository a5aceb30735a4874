"""Connects agents of LangChain and LangGraph (`create_agent`) with an engine, and offers the engine's memory as a
retriever.

    agent = create_agent(model, tools, middleware=[ContextMiddleware(engine)], checkpointer=...)
    await agent.ainvoke({"messages": [...]}, {"configurable": {"thread_id": "s1"}})

The session has the id of the thread. A turn is named by the id of the user's message, which a checkpointer keeps.
Therefore an interrupted run continues its turn, even in another process. Only the request to the model is changed,
never the state of the graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from time import perf_counter
from typing import Any
from uuid import UUID

from jacquard import ConfigError, ContextEngine
from jacquard.integrations.core.adapter import ContextAdapter
from jacquard.integrations.core.mapping import document_from, find_provider, is_text_part, read_arguments, read_text
from jacquard.integrations.core.prompt import join_system
from jacquard.integrations.core.recall import SessionRecall
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

REQUIREMENT = Requirement(extra="langchain", distribution="langchain", floor="1.4")

try:
    from langchain.agents.middleware import AgentMiddleware, ModelResponse
    from langchain.agents.middleware import ModelRequest as AgentModelRequest
    from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
    from langchain_core.documents import Document
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.messages import convert_to_messages as convert_sequence
    from langchain_core.prompt_values import PromptValue
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise explain_missing(REQUIREMENT, error) from error

_HOOKS = ("wrap_model_call", "awrap_model_call", "wrap_tool_call", "awrap_tool_call", "after_agent", "aafter_agent")
_ROLES = {"human": Role.USER, "ai": Role.ASSISTANT, "system": Role.SYSTEM, "tool": Role.TOOL}


class LangChainMapper:
    """Converts messages, tool calls and usage of LangChain to values of a session."""

    framework = "langchain"

    def map_message(self, message: Any) -> Message:
        """Return a message with its role, text and author. A message with a custom role counts as the user's."""
        role = _ROLES.get(message.type, Role.USER)
        kind = {Role.USER: AuthorKind.USER, Role.ASSISTANT: AuthorKind.AGENT, Role.TOOL: AuthorKind.TOOL}.get(role)
        author = Author(kind=kind, id=message.name) if kind is not None and message.name else None
        return Message(role=role, content=read_text(message.content), message_id=message.id or "", author=author)

    def map_tool_call(self, call: Any) -> ToolCall:
        """Return a tool call from a mapping with `id`, `name` and `args`."""
        return ToolCall(
            tool_call_id=call["id"] or call["name"], tool=call["name"], args_digest=read_arguments(call["args"])
        )

    def map_model_usage(self, usage: Any) -> ModelUsage:
        """Return the token counts of a `UsageMetadata`."""
        return ModelUsage(
            model_usage_id="",
            prompt_tokens=usage.get("input_tokens") or 0,
            completion_tokens=usage.get("output_tokens") or 0,
            total_tokens=usage.get("total_tokens") or 0,
        )


class ContextMiddleware(AgentMiddleware):
    """Adds the engine's prompt to every model call of an agent, and records the agent's actions.

    Put this middleware after middlewares that summarize or trim messages, and before middlewares that retry.

    Args:
        engine: engine on the agent's event loop, or one of `jacquard.sync`, which `invoke` and `stream` need.
        session: session id, or a function that returns a session id for LangGraph's `Runtime` (None: the id of the
            thread).
        user: user id, or a function that returns a user id. A session that belongs to another user is refused.
        failure, document_tools, record_chunks, system_in_place: see `AdapterOptions`.

    Raises FrameworkError if LangChain is too old or lacks a hook.
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
        super().__init__()
        version = check_framework(REQUIREMENT, [(AgentMiddleware, name) for name in _HOOKS])
        options = AdapterOptions(
            failure=FailurePolicy(failure),
            document_tools=frozenset(document_tools),
            record_chunks=record_chunks,
            system_in_place=system_in_place,
        )
        self.adapter = ContextAdapter(engine, LangChainMapper(), options, version=version)
        self._session, self._user = session, user
        self._begun: dict[str, str] = {}

    @property
    def report(self) -> AdapterReport:
        """Counts of the adapter's actions so far, and its problems."""
        return self.adapter.report

    @property
    def documents(self) -> DocumentRecorder:
        """Callback handler that stores what retrievers find. Pass it to a run: `config={"callbacks":
        [middleware.documents]}`.
        """
        return DocumentRecorder(self)

    def detach(self) -> None:
        """Let all later model calls pass unchanged."""
        self.adapter.detach()

    def before_agent(self, state: Any, runtime: Any) -> None:
        """Note which user message the run answers."""
        if not self.adapter.is_attached:
            return
        user = next((message for message in reversed(state["messages"]) if isinstance(message, HumanMessage)), None)
        if user is not None and user.id:
            self._begun[self.session_of(runtime)] = user.id

    async def abefore_agent(self, state: Any, runtime: Any) -> None:
        """Note which user message the run answers."""
        self.before_agent(state, runtime)

    async def awrap_model_call(
        self, request: AgentModelRequest, handler: Callable[[AgentModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """Call the model with our prompt, followed by the tool calls that the agent made in this turn. `handler` calls
        the model.
        """
        if not self.adapter.is_attached:
            return await handler(request)
        call = self._read(request)
        prompt = await self.adapter.on_before_model_call(call.session_id, call.request)
        if prompt is None:
            return await handler(request)
        if prompt.reply is not None:
            return ModelResponse(result=[AIMessage(prompt.reply)])
        listener = _AsyncChunks(self.adapter, call.session_id, call.request.turn_key)
        response = await handler(call.inject(prompt, listener))
        answer, usage = read_answer(response)
        await self.adapter.on_after_model_call(call.session_id, answer, usage, turn_key=call.request.turn_key)
        return response

    def wrap_model_call(
        self, request: AgentModelRequest, handler: Callable[[AgentModelRequest], ModelResponse]
    ) -> ModelResponse:
        """Do the same as `awrap_model_call`, for `invoke` and `stream`."""
        if not self.adapter.is_attached:
            return handler(request)
        call, block = self._read(request), self.adapter.run_blocking
        prompt = block(self.adapter.on_before_model_call, call.session_id, call.request)
        if prompt is None:
            return handler(request)
        if prompt.reply is not None:
            return ModelResponse(result=[AIMessage(prompt.reply)])
        response = handler(call.inject(prompt, _Chunks(self.adapter, call.session_id, call.request.turn_key)))
        answer, usage = read_answer(response)
        block(self.adapter.on_after_model_call, call.session_id, answer, usage, turn_key=call.request.turn_key)
        return response

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Run a tool and record the call. An error of the tool is raised unchanged. `handler` runs the tool."""
        if not self.adapter.is_attached:
            return await handler(request)
        session_id, call = self.session_of(request.runtime), request.tool_call
        provider = _provider_of(request.tool)
        await self.adapter.on_user_message(session_id, self._read_state(request).request)
        await self.adapter.on_tool_call_start(session_id, call)
        try:
            result = await handler(request)
        except Exception as error:
            await self.adapter.on_tool_call_end(session_id, call, ToolOutcome(error=error), provider=provider)
            raise
        await self.adapter.on_tool_call_end(session_id, call, _read_outcome(result, call["id"]), provider=provider)
        return result

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Do the same as `awrap_tool_call`, for `invoke` and `stream`."""
        if not self.adapter.is_attached:
            return handler(request)
        session_id, call, block = self.session_of(request.runtime), request.tool_call, self.adapter.run_blocking
        provider = _provider_of(request.tool)
        block(self.adapter.on_user_message, session_id, self._read_state(request).request)
        block(self.adapter.on_tool_call_start, session_id, call)
        try:
            result = handler(request)
        except Exception as error:
            block(self.adapter.on_tool_call_end, session_id, call, ToolOutcome(error=error), provider=provider)
            raise
        block(self.adapter.on_tool_call_end, session_id, call, _read_outcome(result, call["id"]), provider=provider)
        return result

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        """Commit the final answer of the agent."""
        if not self.adapter.is_attached:
            return
        session_id = self.session_of(runtime)
        key = self._begun.pop(session_id, None)
        await self.adapter.on_turn_end(session_id, _final_text(state["messages"]), turn_key=key)

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Do the same as `aafter_agent`, for `invoke` and `stream`."""
        if not self.adapter.is_attached:
            return
        session_id = self.session_of(runtime)
        key = self._begun.pop(session_id, None)
        self.adapter.run_blocking(self.adapter.on_turn_end, session_id, _final_text(state["messages"]), turn_key=key)

    def session_of(self, runtime: Any) -> str:
        """Return the session id of a run. Raises ConfigError if neither the middleware nor the run names a session."""
        named = self._session(runtime) if callable(self._session) else self._session
        info = getattr(runtime, "execution_info", None)
        session_id = named or getattr(info, "thread_id", None)
        if not session_id:
            raise ConfigError(
                'The run names no session. Give it a thread, {"configurable": {"thread_id": ...}}, or give ContextMiddleware '
                "session=..."
            )
        return str(session_id)

    def _read(self, request: AgentModelRequest) -> AgentCall:
        return self._read_messages(request, request.messages, has_own=bool(request.tools or request.system_message))

    def _read_state(self, request: Any) -> AgentCall:
        """Return the agent call that a tool call belongs to; an interrupted run begins with its tools."""
        state = request.state
        messages = state.get("messages", ()) if isinstance(state, dict) else getattr(state, "messages", state)
        return self._read_messages(request, messages, has_own=True)

    def _read_messages(self, request: Any, given: Sequence[AnyMessage], *, has_own: bool) -> AgentCall:
        session_id = self.session_of(request.runtime)
        messages = list(given)
        begun = self._begun.get(session_id)
        place = next((n for n, message in enumerate(messages) if begun and message.id == begun), None)
        if place is None:
            place = next((n for n in reversed(range(len(messages))) if isinstance(messages[n], HumanMessage)), None)
        if place is None:
            raise ConfigError("The messages of the agent contain no message of the user, with which a turn begins.")
        user_id = self._user(request.runtime) if callable(self._user) else self._user
        return AgentCall(self.adapter.map_message, request, session_id, messages, place, user_id, has_own=has_own)


class AgentCall:
    """Model call of an agent. `user` is the user's message, and `place` is its index in `messages`.

    Our prompt replaces all messages up to the user's. The messages after the user's message stay.
    """

    def __init__(
        self,
        map_message: Callable[[Any], Message],
        request: Any,
        session_id: str,
        messages: Sequence[AnyMessage],
        place: int,
        user_id: str | None,
        *,
        has_own: bool,
    ) -> None:
        self.session_id, self._agent_request = session_id, request
        self.user, self._tail = messages[place], messages[place + 1 :]
        before = messages[:place]
        self._systems = [message for message in before if isinstance(message, SystemMessage)]
        history = (map_message(message) for message in before if isinstance(message, HumanMessage | AIMessage))
        key = self.user.id or hashlib.sha256(f"{place}\0{read_text(self.user.content)}".encode()).hexdigest()
        self.request = ModelRequest(
            turn_key=key,
            user=map_message(self.user),
            history=tuple(message for message in history if message.content),
            tail=tuple(_to_plain(message) for message in self._tail),
            is_bare=not (has_own or self._systems),
            user_id=user_id,
        )

    def inject(self, prompt: InjectedPrompt, listener: BaseCallbackHandler) -> AgentModelRequest:
        """Return the request with our prompt, and with a model that passes its chunks to `listener`."""
        model = self._agent_request.model
        held = model.callbacks if isinstance(model.callbacks, list) else []
        if model.callbacks is None or held:
            model = model.model_copy(update={"callbacks": [*held, listener]})
        return self.inject_messages(prompt).override(model=model)

    def inject_messages(self, prompt: InjectedPrompt) -> Any:
        """Return the request with our prompt. The agent's own system messages and all messages after the user's stay."""
        *earlier, user = prompt.messages
        messages = [_to_message(part.role, part.content) for part in earlier]
        others = (
            [part for part in self.user.content if not is_text_part(part)]
            if isinstance(self.user.content, list)
            else []
        )
        content: Any = [{"type": "text", "text": user.content}, *others] if others else user.content
        messages.append(self.user.model_copy(update={"content": content}))
        return self._agent_request.override(system_message=self._join_system(prompt), messages=[*messages, *self._tail])

    def _join_system(self, prompt: InjectedPrompt) -> SystemMessage | None:
        own = self._agent_request.system_message
        others = "\n\n".join(read_text(message.content) for message in self._systems)
        if own is not None and isinstance(own.content, list):
            added = [{"type": "text", "text": text} for text in (others, prompt.system) if text]
            return own.model_copy(update={"content": [*own.content, *added]})
        text = join_system(
            "\n\n".join(text for text in ((own.text if own is not None else ""), others) if text), prompt
        )
        return SystemMessage(text) if text else None


class _AsyncChunks(AsyncCallbackHandler):
    """Passes the chunks of one model call to the adapter."""

    def __init__(self, adapter: ContextAdapter, session_id: str, turn_key: str) -> None:
        self._adapter, self._session_id, self._turn_key = adapter, session_id, turn_key

    async def on_llm_new_token(self, token: Any, **_: Any) -> None:
        await self._adapter.on_chunk(self._session_id, read_text(token), turn_key=self._turn_key)


class _Chunks(BaseCallbackHandler):
    """Same as `_AsyncChunks`, for synchronous calls."""

    def __init__(self, adapter: ContextAdapter, session_id: str, turn_key: str) -> None:
        self._adapter, self._session_id, self._turn_key = adapter, session_id, turn_key

    def on_llm_new_token(self, token: Any, **_: Any) -> None:
        text = read_text(token)
        self._adapter.run_blocking(self._adapter.on_chunk, self._session_id, text, turn_key=self._turn_key)


class DocumentRecorder(AsyncCallbackHandler):
    """Callback handler that records every search of a retriever as a tool call, and stores the documents that it found.
    A document is stored as evidence of the type `rag_doc` in the session `session_id`, or in the session of the run's
    thread.
    """

    def __init__(self, middleware: ContextMiddleware, session_id: str | None = None) -> None:
        self._middleware, self._session_id = middleware, session_id
        self._asked: dict[UUID, tuple[str, str, str, float]] = {}

    async def on_retriever_start(
        self,
        serialized: Any,
        query: str,
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        name: str | None = None,
        **_: Any,
    ) -> None:
        """Note the query of a search, its session and the name of the retriever."""
        session_id = self._session_id or str((metadata or {}).get("thread_id") or "")
        if session_id:
            self._asked[run_id] = (session_id, query, name or "retriever", perf_counter())

    async def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **_: Any) -> None:
        """Record a search, and store the documents that it found."""
        found = [document_from(each.page_content, each.metadata, name="retriever") for each in documents]
        await self._record(run_id, found)

    async def on_retriever_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record a search that failed."""
        await self._record(run_id, [], error)

    async def _record(self, run_id: UUID, found: Sequence[Any], error: BaseException | None = None) -> None:
        session_id, query, name, since = self._asked.pop(run_id, ("", "", "", 0.0))
        if session_id:
            call = ToolCall(tool_call_id=str(run_id), tool=name, duration_ms=round((perf_counter() - since) * 1000))
            await self._middleware.adapter.on_documents(session_id, found, query=query, call=call, error=error)


class ContextRetriever(BaseRetriever):
    """Retriever of LangChain that searches the memory of a session: `ContextRetriever(recall=SessionRecall(engine,
    "s1"))`.
    """

    recall: Any

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [_to_document(each) for each in self._session_recall.recall_blocking(query)]

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [_to_document(each) for each in await self._session_recall.recall(query)]

    @property
    def _session_recall(self) -> SessionRecall:
        assert isinstance(self.recall, SessionRecall)
        return self.recall


def _to_document(found: Any) -> Document:
    return Document(page_content=found.text, metadata=found.metadata, id=found.entry_id)


def convert_to_messages(given: Any) -> list[AnyMessage]:
    """Return the input of a model (a text, messages, or the result of a prompt template) as a list of messages."""
    if isinstance(given, PromptValue):
        return given.to_messages()
    return [HumanMessage(given)] if isinstance(given, str) else convert_sequence(given)


def _to_message(role: str, content: str) -> AnyMessage:
    if role == Role.SYSTEM.value:
        return SystemMessage(content)
    return AIMessage(content) if role == Role.ASSISTANT.value else HumanMessage(content)


def _to_plain(message: AnyMessage) -> dict[str, Any]:
    """Return a message of the tail in OpenAI's form, to check its cost and its pairs."""
    text = read_text(message.content)
    if isinstance(message, AIMessage):
        calls = [
            {"id": call["id"], "function": {"name": call["name"], "arguments": call["args"]}}
            for call in message.tool_calls
        ]
        return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}
    return {"role": "system" if isinstance(message, SystemMessage) else "user", "content": text}


def read_answer(response: Any) -> tuple[ModelAnswer, Any]:
    """Return (answer, usage): the answer of a model, and its usage as LangChain reports it (None: not reported)."""
    inner = getattr(response, "model_response", response)
    messages = (
        [inner] if isinstance(inner, AIMessage) else [each for each in inner.result if isinstance(each, AIMessage)]
    )
    if not messages:
        return ModelAnswer(), None
    said = messages[0]
    about = said.response_metadata
    answer = ModelAnswer(
        text=read_text(said.content),
        tool_calls=len(said.tool_calls),
        model=str(about.get("model_name") or about.get("model") or ""),
        provider=str(about.get("model_provider") or ""),
    )
    return answer, said.usage_metadata


def _provider_of(tool: Any) -> Any:
    """Return the provider of a tool: the module of its function, else of its class (None: the tool is not registered)."""
    return find_provider(getattr(tool, "func", None), getattr(tool, "coroutine", None), tool)


def _read_outcome(result: Any, call_id: str | None) -> ToolOutcome:
    """Return the outcome in a tool message, or in a command that updates the state with one."""
    updated = getattr(result, "update", None)
    held = updated.get("messages", ()) if isinstance(updated, dict) else ()
    given = [result, *held] if not isinstance(result, list) else result
    message = next((each for each in given if isinstance(each, ToolMessage) and each.tool_call_id == call_id), None)
    if message is None:
        return ToolOutcome(result="")
    text = read_text(message.content)
    return ToolOutcome(error=text or "failed") if message.status == "error" else ToolOutcome(result=text)


def _final_text(messages: Sequence[AnyMessage]) -> str:
    """Return the text of the agent's last answer; if it ended with a tool (structured output), that tool's text."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        if isinstance(message, AIMessage | ToolMessage) and (text := read_text(message.content)):
            return text
    return ""
