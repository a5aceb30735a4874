"""The contract of an adapter, as far as a framework's hooks can keep it.

Two things differ from the seed, because hooks are called for each call of the model and not for each message of the user: a
request names its turn (`ModelRequest.turn_key`), and the result of `on_before_model_call` holds the messages before the
framework's own tool calls, which are left as they are.
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
    """Maps the values of one framework to those of the session document; it keeps none of the framework's objects.

    1. `map_message` keeps role and text, and the author where the framework names one.
    2. `map_tool_call` keeps id, name and arguments; arguments are plain values.
    3. `map_model_usage` gives the provider's counts, 0 where it gave none.
    """

    @property
    def framework(self) -> str:
        """The name of the framework, as it is in tags of events (`langchain`)."""
        ...

    def map_message(self, message: Any) -> Message:
        """Return a message of the framework as one of the session."""
        ...

    def map_tool_call(self, call: Any) -> ToolCall:
        """Return a tool call of the framework; its id is that of the framework."""
        ...

    def map_model_usage(self, usage: Any) -> ModelUsage:
        """Return what the framework reports of a model call; its id is filled in later."""
        ...


class AgentFrameworkAdapter(Protocol):
    """Connects a framework's hooks with an engine. `jacquard.testing.framework.FrameworkContract` tests each rule.

    1. Every model call of a message of the user gets the same prompt, and the session gets one turn for it.
    2. The framework's own messages after that of the user (tool calls and their results) follow our prompt untouched.
    3. What the framework stores of the conversation is what it would have stored without the adapter.
    4. Each tool call is recorded once, with id, arguments, status, result and duration; each usage once.
    5. Runs in two sessions at once do not see each other.
    6. Where the engine fails, `open` lets the agent go on and the report says so; `closed` raises the error.
    7. After `detach` the framework calls the model as it did before.
    """

    @property
    def framework(self) -> str:
        """The name of the framework."""
        ...

    @property
    def report(self) -> AdapterReport:
        """What the adapter has done so far, and what it could not do."""
        ...

    def map_message(self, msg: Any) -> Message:
        """As `FrameworkMapper.map_message`."""
        ...

    def map_tool_call(self, call: Any) -> ToolCall:
        """As `FrameworkMapper.map_tool_call`."""
        ...

    def map_model_usage(self, usage: Any) -> ModelUsage:
        """As `FrameworkMapper.map_model_usage`."""
        ...

    async def on_user_message(self, session_id: str, request: ModelRequest) -> None:
        """Begin the turn of a message of the user, where its first model call does not."""
        ...

    async def on_before_model_call(self, session_id: str, request: ModelRequest) -> InjectedPrompt | None:
        """Return what goes into a model call; None where the engine failed and the agent goes on without it."""
        ...

    async def on_after_model_call(
        self, session_id: str, response: ModelAnswer, usage: Any | None = None, *, turn_key: str | None = None
    ) -> None:
        """Record the usage of a model call."""
        ...

    async def on_tool_call_start(self, session_id: str, tool_call: Any, *, turn_key: str | None = None) -> None:
        """Note when a tool call begins."""
        ...

    async def on_tool_call_end(
        self, session_id: str, tool_call: Any, result: ToolOutcome, *, turn_key: str | None = None
    ) -> None:
        """Record a tool call with its result."""
        ...

    async def on_chunk(self, session_id: str, text: str, *, turn_key: str | None = None) -> None:
        """Take in a chunk of the model's present answer."""
        ...

    async def on_turn_end(self, session_id: str, reply: Message | str, *, turn_key: str | None = None) -> None:
        """Commit the final answer of the turn."""
        ...

    def detach(self) -> None:
        """Stop governing calls, and restore what the installer changed; a second call does nothing."""
        ...
