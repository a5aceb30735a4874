"""Connects chains of LangChain (LCEL) without an agent with an engine, by a chat model.

    chain = prompt | ContextModel(engine, model) | StrOutputParser()
    await chain.ainvoke({"question": "..."}, {"configurable": {"thread_id": "s1"}})

Each call is a turn: our prompt goes into the call, and the answer is committed. If the answer calls tools, the turn is
not over. The host then runs the tools and calls again with their results, and the turn continues.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable

from jacquard import ConfigError, ContextEngine
from jacquard.integrations.core.adapter import ContextAdapter
from jacquard.integrations.core.mapping import read_text
from jacquard.integrations.core.requirements import check_framework
from jacquard.integrations.core.values import AdapterOptions, AdapterReport, FailurePolicy, InjectedPrompt
from jacquard.integrations.langchain.agent import (
    REQUIREMENT,
    AgentCall,
    LangChainMapper,
    convert_to_messages,
    read_answer,
)
from jacquard.sync import SyncEngine
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class _Request:
    """Input of an agent's middleware for a model call, here for a call without an agent."""

    system_message: SystemMessage | None = None
    messages: tuple[AnyMessage, ...] = ()

    def override(self, *, system_message: SystemMessage | None, messages: list[AnyMessage]) -> _Request:
        return _Request(system_message=system_message, messages=tuple(messages))

    @property
    def given(self) -> list[AnyMessage]:
        """Input of the model."""
        return [*([] if self.system_message is None else [self.system_message]), *self.messages]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Call:
    """One call of the chain's model: its session and turn, and the function that adds our prompt."""

    session_id: str
    key: str
    asked: AgentCall

    def given(self, prompt: InjectedPrompt) -> list[AnyMessage]:
        request: _Request = self.asked.inject_messages(prompt)
        return request.given


class ContextModel(Runnable):
    """Chat model for chains without an agent: its calls have the engine's prompt, and its answers are committed.

    Args:
        engine: engine on the chain's event loop, or one of `jacquard.sync`, which `invoke` and `stream` need.
        model: the chat model to call; tools may be bound to it.
        session: session id, or a function that returns a session id for the run's configuration (None:
            `configurable.thread_id`).
        user: user id, or a function that returns a user id for the run's configuration.
        failure: see `AdapterOptions`.

    Raises FrameworkError if LangChain is too old. Its calls raise ConfigError if no session is named or if there is no
    user message.
    """

    def __init__(
        self,
        engine: ContextEngine | SyncEngine,
        model: Any,
        *,
        session: str | Callable[[Any], str] | None = None,
        user: str | Callable[[Any], str | None] | None = None,
        failure: FailurePolicy | str = FailurePolicy.OPEN,
    ) -> None:
        version = check_framework(REQUIREMENT, [])
        options = AdapterOptions(failure=FailurePolicy(failure))
        self.adapter = ContextAdapter(engine, LangChainMapper(), options, version=version)
        self._model, self._session, self._user = model, session, user
        self._going: dict[str, tuple[str, str]] = {}

    @property
    def report(self) -> AdapterReport:
        """Counts of the adapter's actions so far, and its problems."""
        return self.adapter.report

    def detach(self) -> None:
        """Let all later model calls pass unchanged."""
        self.adapter.detach()

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> AIMessage:
        """Return the model's answer to our prompt. The answer is committed unless it calls tools."""
        if not self.adapter.is_attached:
            return await self._model.ainvoke(input, config, **kwargs)
        call = self._read(input, config)
        prompt = await self.adapter.on_before_model_call(call.session_id, call.asked.request)
        if prompt is not None and prompt.reply is not None:
            return await self._end(call, AIMessage(prompt.reply))
        try:
            given = input if prompt is None else call.given(prompt)
            said = await self._model.ainvoke(given, config, **kwargs)
        except BaseException:
            await self.adapter.on_turn_failed(call.session_id, turn_key=call.key)
            raise
        return await self._end(call, said, called=prompt is not None)

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> AIMessage:
        """Do the same as `ainvoke`, without awaiting."""
        if not self.adapter.is_attached:
            return self._model.invoke(input, config, **kwargs)
        call, block = self._read(input, config), self.adapter.run_blocking
        prompt = block(self.adapter.on_before_model_call, call.session_id, call.asked.request)
        if prompt is not None and prompt.reply is not None:
            return block(self._end, call, AIMessage(prompt.reply))
        try:
            given = input if prompt is None else call.given(prompt)
            said = self._model.invoke(given, config, **kwargs)
        except BaseException:
            block(self.adapter.on_turn_failed, call.session_id, turn_key=call.key)
            raise
        return block(self._end, call, said, called=prompt is not None)

    async def astream(self, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[AIMessage]:
        """Yield the chunks of the model's answer. When the answer is complete, it is committed unless it calls tools."""
        if not self.adapter.is_attached:
            async for chunk in self._model.astream(input, config, **kwargs):
                yield chunk
            return
        call, said = self._read(input, config), None
        prompt = await self.adapter.on_before_model_call(call.session_id, call.asked.request)
        if prompt is not None and prompt.reply is not None:
            yield await self._end(call, AIMessage(prompt.reply))
            return
        try:
            given = input if prompt is None else call.given(prompt)
            async for chunk in self._model.astream(given, config, **kwargs):
                said = chunk if said is None else said + chunk
                await self.adapter.on_chunk(call.session_id, read_text(chunk.content), turn_key=call.key)
                yield chunk
        except BaseException:
            await self.adapter.on_turn_failed(call.session_id, turn_key=call.key)
            raise
        await self._end(call, said or AIMessage(""), called=prompt is not None)

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[AIMessage]:
        """Do the same as `astream`, without awaiting."""
        if not self.adapter.is_attached:
            yield from self._model.stream(input, config, **kwargs)
            return
        call, said, block = self._read(input, config), None, self.adapter.run_blocking
        prompt = block(self.adapter.on_before_model_call, call.session_id, call.asked.request)
        if prompt is not None and prompt.reply is not None:
            yield block(self._end, call, AIMessage(prompt.reply))
            return
        try:
            given = input if prompt is None else call.given(prompt)
            for chunk in self._model.stream(given, config, **kwargs):
                said = chunk if said is None else said + chunk
                block(self.adapter.on_chunk, call.session_id, read_text(chunk.content), turn_key=call.key)
                yield chunk
        except BaseException:
            block(self.adapter.on_turn_failed, call.session_id, turn_key=call.key)
            raise
        block(self._end, call, said or AIMessage(""), called=prompt is not None)

    async def _end(self, call: _Call, said: AIMessage, *, called: bool = False) -> AIMessage:
        """Record an answer, and commit it if it calls no tools."""
        if called:
            answer, usage = read_answer(said)
            await self.adapter.on_after_model_call(call.session_id, answer, usage, turn_key=call.key)
        if said.tool_calls:
            self._going[call.session_id] = (read_text(call.asked.user.content), call.key)
            return said
        self._going.pop(call.session_id, None)
        await self.adapter.on_turn_end(call.session_id, read_text(said.content), turn_key=call.key)
        return said

    def _read(self, given: Any, config: Any) -> _Call:
        session_id = self._session_of(config)
        messages = convert_to_messages(given)
        place = next((n for n in reversed(range(len(messages))) if isinstance(messages[n], HumanMessage)), None)
        if place is None:
            raise ConfigError("The call of the model contains no message of the user, with which a turn begins.")
        user_id = self._user(config) if callable(self._user) else self._user
        asked = AgentCall(self.adapter.map_message, _Request(), session_id, messages, place, user_id, has_own=False)
        text, key = self._going.get(session_id, ("", ""))
        # The same words again, without tool results after them, are another turn.
        if not (place < len(messages) - 1 and key and text == read_text(messages[place].content)):
            key = messages[place].id or str(uuid4())
        asked.request = replace(asked.request, turn_key=key)
        return _Call(session_id=session_id, key=key, asked=asked)

    def _session_of(self, config: Any) -> str:
        named = self._session(config) if callable(self._session) else self._session
        session_id = named or ((config or {}).get("configurable") or {}).get("thread_id")
        if not session_id:
            raise ConfigError(
                'The call names no session. Give it a thread, {"configurable": {"thread_id": ...}}, or give ContextModel '
                "session=..."
            )
        return str(session_id)
