"""Contract of an adapter, as far as a framework's hooks can keep it.

Hooks are called for each model call, not for each user message. Therefore a request names its turn (`ModelRequest.turn_key`),
and the result of `on_before_model_call` contains the messages before the framework's own tool calls, which stay unchanged.
"""

from __future__ import annotations

from typing import Any, Protocol

from jacquard.integrations.core.values import (
    AdapterReport,
    InjectedPrompt,
    ModelAnswer,
    ModelRequest,
    ToolOutcome,
)
from mnemosyne.schema.document import ModelUsage, ToolCall
from mnemosyne.schema.session import Message


class FrameworkMapper(Protocol):
    """Maps the values of one framework to those of the session document; stores none of the framework's objects.

    1. `map_message` keeps role and text, and the author if the framework names one.
    2. `map_tool_call` keeps id, name and arguments; arguments are plain values.
    3. `map_model_usage` returns the provider's counts, 0 if it gave none.
    """

    @property
    def framework(self) -> str:
        """Name of the framework, as in the tags of events (`langchain`)."""
        ...

    def map_message(self, message: Any) -> Message:
        """Return a message of the framework as one of the session."""
        ...

    def map_tool_call(self, call: Any) -> ToolCall:
        """Return a tool call of the framework; its id is that of the framework."""
        ...

    def map_model_usage(self, usage: Any) -> ModelUsage:
        """Return the framework's report of a model call; its id is filled in later."""
        ...


class AgentFrameworkAdapter(Protocol):
    """Connects a framework's hooks with an engine. `jacquard.testing.framework.FrameworkContract` tests each rule.

    1. Every model call for a user message gets the same prompt, and the session gets one turn for it.
    2. The framework's own messages after the user's (tool calls and their results) follow our prompt unchanged.
    3. The framework stores the same conversation as without the adapter.
    4. Each tool call is recorded once, with id, arguments, status, result and duration; each usage once.
    5. Runs in two sessions at once do not see each other.
    6. If the engine fails, `open` lets the agent continue and the report states it; `closed` raises the error.
    7. After `detach` the framework calls the model as it did before.
    """

    @property
    def framework(self) -> str:
        """Name of the framework."""
        ...

    @property
    def report(self) -> AdapterReport:
        """Report of the adapter's actions and problems."""
        ...

    def map_message(self, msg: Any) -> Message:
        """See `FrameworkMapper.map_message`."""
        ...

    def map_tool_call(self, call: Any) -> ToolCall:
        """See `FrameworkMapper.map_tool_call`."""
        ...

    def map_model_usage(self, usage: Any) -> ModelUsage:
        """See `FrameworkMapper.map_model_usage`."""
        ...

    async def on_user_message(self, session_id: str, request: ModelRequest) -> None:
        """Begin the turn of a user message, if its first model call does not."""
        ...

    async def on_before_model_call(self, session_id: str, request: ModelRequest) -> InjectedPrompt | None:
        """Return the input for a model call; None if the engine failed and the agent continues without it."""
        ...

    async def on_after_model_call(
        self, session_id: str, response: ModelAnswer, usage: Any | None = None, *, turn_key: str | None = None
    ) -> None:
        """Record the usage of a model call."""
        ...

    async def on_tool_call_start(self, session_id: str, tool_call: Any, *, turn_key: str | None = None) -> None:
        """Record the start of a tool call."""
        ...

    async def on_tool_call_end(
        self, session_id: str, tool_call: Any, result: ToolOutcome, *, turn_key: str | None = None
    ) -> None:
        """Record a tool call with its result."""
        ...

    async def on_chunk(self, session_id: str, text: str, *, turn_key: str | None = None) -> None:
        """Record a chunk of the model's present answer."""
        ...

    async def on_turn_end(self, session_id: str, reply: Message | str, *, turn_key: str | None = None) -> None:
        """Commit the final answer of the turn."""
        ...

    def detach(self) -> None:
        """Stop governing calls, and restore the installer's changes; a second call does nothing."""
        ...
