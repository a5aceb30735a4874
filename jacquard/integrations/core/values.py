"""Values exchanged between an agent framework's hooks and the adapter, without the framework's own types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jacquard import JacquardError
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.session import Message


class FailurePolicy(StrEnum):
    """Policy for failures of the engine: the agent continues without it (`open`), or its run ends with the error (`closed`)."""

    OPEN = "open"
    CLOSED = "closed"


class FrameworkError(JacquardError):
    """A framework cannot be used: it is older than the adapter needs, or a hook that the adapter overrides is gone."""


class SessionOwnerError(JacquardError):
    """A session belongs to another user than the run; raised with every failure policy."""

    def __init__(self, session_id: str, owner: str, user_id: str) -> None:
        self.session_id, self.owner, self.user_id = session_id, owner, user_id
        super().__init__(
            f"Session {session_id!r} belongs to another user than {user_id!r}. Give each user sessions of their own, or name "
            "the user that this session belongs to."
        )


class ToolResultError(JacquardError):
    """The result of a tool is neither text nor JSON, so it cannot be stored as evidence."""

    def __init__(self, tool: str, call_id: str, kind: str) -> None:
        self.tool, self.call_id, self.kind = tool, call_id, kind
        super().__init__(
            f"The result of tool {tool!r} (call {call_id!r}) is a {kind}, neither text nor JSON. Let the tool return "
            "text; the call is recorded without its result."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterOptions:
    """Options of an adapter."""

    failure: FailurePolicy = FailurePolicy.OPEN
    document_tools: frozenset[str] = frozenset()
    """Names of tools whose results are documents: each becomes evidence of type `rag_doc`."""
    record_chunks: bool = True
    """Pass streamed chunks to the engine as they come, several at once."""
    system_in_place: bool = False
    """Keep text that changes in each turn as a system message before the input, for providers that cache everything before it.

    By default it is at the end of the single system text, because the Anthropic API and some frameworks accept only one.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "failure", FailurePolicy(self.failure))
        object.__setattr__(self, "document_tools", frozenset(self.document_tools))


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelRequest:
    """One model call that a framework is about to make."""

    turn_key: str
    """The same for all model calls of one user message, different for the next one."""
    user: Message
    """User message to answer."""
    history: tuple[Message, ...] = ()
    """Messages before it, oldest first; an empty session is filled with them."""
    before: tuple[Message, ...] = ()
    """Messages of `history` that came with the user's (from other agents, with ids), so the session cannot have them yet."""
    tail: tuple[Mapping[str, Any], ...] = ()
    """Messages after it (tool calls and results) in the form of OpenAI's API, to check their cost."""
    is_bare: bool = False
    """True if only our prompt is sent (no system text of the agent, no tools), so the provider's count is a count of it."""
    user_id: str | None = None
    """User of the run, if known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelAnswer:
    """Answer of a model: its text, and the number of tools that it calls (0: it answers the user)."""

    text: str = ""
    tool_calls: int = 0
    model: str = ""
    provider: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptPart:
    """One message of the prompt: its role (`system`, `user`, `assistant`) and its text."""

    role: str
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class InjectedPrompt:
    """Input for a model call."""

    turn_id: str
    system: str
    """Follows the agent's own system text."""
    messages: tuple[PromptPart, ...]
    """Replace the framework's messages up to the user's, which is the last; the framework's tail follows them unchanged."""
    reply: str | None = None
    """Set if the turn is complete already (a numerical turn), so that no model needs to be called."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolOutcome:
    """Result of a tool call: the framework's result unchanged, or the error."""

    result: Any = None
    error: BaseException | str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundDocument:
    """Document that a retriever of the framework returned; `score` is on the retriever's own scale."""

    text: str
    uri: str = ""
    name: str = ""
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Step that failed while the agent continued: `step` names it (`prepare`, `tool_result`), `detail` describes the failure."""

    step: str
    session_id: str
    detail: str
    turn_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterReport:
    """Counts of an adapter's actions so far; `problems` are the newest 100, oldest first."""

    framework: str
    version: str
    turns: int = 0
    governed_calls: int = 0
    """Model calls with our prompt."""
    ungoverned_calls: int = 0
    """Model calls without our prompt."""
    tool_calls: int = 0
    usages: int = 0
    chunks: int = 0
    documents: int = 0
    problems: tuple[Problem, ...] = ()
