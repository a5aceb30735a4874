"""Defines what an adapter and its mapper must do, as far as the hooks of a framework allow.

Frameworks call their hooks for each model call, not for each user message. Therefore a request names its turn
(`ModelRequest.turn_key`). The result of `on_before_model_call` replaces all messages up to and including the user's.
The framework's own tool calls after the user's message stay unchanged.
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
from mnemosyne import Message, ModelUsage, ToolCall


class FrameworkMapper(Protocol):
    """Converts the values of one framework to values of a session. No object of the framework is stored.

    1. `map_message` keeps role and text, and the author if the framework names one.
    2. `map_tool_call` keeps id, name and arguments. The arguments are plain values.
    3. `map_model_usage` returns the provider's token counts, or 0 if the provider gave none.
    """

    @property
    def framework(self) -> str:
        """Name of the framework, as in the tags of events (`langchain`)."""
        ...

    def map_message(self, message: Any) -> Message:
        """Return a message of the framework as a message of the session."""
        ...

    def map_tool_call(self, call: Any) -> ToolCall:
        """Return a tool call of the framework as one of the session, under the framework's id."""
        ...

    def map_model_usage(self, usage: Any) -> ModelUsage:
        """Return the framework's report of a model call. The adapter fills in the id later."""
        ...


class AgentFrameworkAdapter(Protocol):
    """Connects a framework's hooks with an engine. `jacquard.testing.framework.FrameworkContract` tests each rule.

    1. Every model call for a user message gets the same prompt, and the session gets one turn for it. 2. The
    framework's own messages after the user's (tool calls and their results) follow our prompt unchanged. 3. The
    framework stores the same conversation as without the adapter. 4. Each tool call is recorded once, with id,
    provider, arguments, status, result and duration. Each usage is recorded once. 5. Runs in two sessions at once do not see each
    other. 6. If the engine fails, `open` lets the agent continue and the report states it; `closed` raises the error.
    7. After `detach` the framework calls the model as it did before.
    """

    @property
    def framework(self) -> str:
        """Name of the framework."""
        ...

    @property
    def report(self) -> AdapterReport:
        """Counts of the adapter's actions so far, and its problems."""
        ...

    def map_message(self, msg: Any) -> Message:
        """Return a message of the framework as a `Message` (`FrameworkMapper.map_message`)."""
        ...

    def map_tool_call(self, call: Any) -> ToolCall:
        """Return a tool call of the framework as a `ToolCall` (`FrameworkMapper.map_tool_call`)."""
        ...

    def map_model_usage(self, usage: Any) -> ModelUsage:
        """Return the token counts of a model call as a `ModelUsage` (`FrameworkMapper.map_model_usage`)."""
        ...

    async def on_user_message(self, session_id: str, request: ModelRequest) -> None:
        """Begin the turn of a user message. This call is needed only if something happens before the first model call
        of the turn.
        """
        ...

    async def on_before_model_call(self, session_id: str, request: ModelRequest) -> InjectedPrompt | None:
        """Return the input for a model call. Return None if the agent must continue without the engine, for example
        because the engine failed.
        """
        ...

    async def on_after_model_call(
        self, session_id: str, response: ModelAnswer, usage: Any | None = None, *, turn_key: str | None = None
    ) -> None:
        """Record the usage of a model call (`usage` None: the framework reports none). `turn_key` is the key of the
        turn, here and in the methods below (None: the turn of the session that began last).
        """
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
        """Record a chunk of the answer that the model is writing now."""
        ...

    async def on_turn_end(self, session_id: str, reply: Message | str, *, turn_key: str | None = None) -> None:
        """Commit the final answer of the turn."""
        ...

    def detach(self) -> None:
        """Stop changing model calls, and undo what was changed to install the hooks. A second call does nothing."""
        ...
