"""Defines the values that a framework's hooks and the adapter exchange. They contain no types of the framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from jacquard import JacquardError
from mnemosyne import Message
from mnemosyne.schema.memory import EMPTY
from mnemosyne.values import dataclass


class FailurePolicy(StrEnum):
    """Policy for failures of the engine. OPEN: the agent continues without the engine. CLOSED: the run of the agent
    ends with the error.
    """

    OPEN = "open"
    CLOSED = "closed"


class FrameworkError(JacquardError):
    """Raised if a framework cannot be used: it is missing, older than the adapter needs, or lacks a hook."""


class SessionOwnerError(JacquardError):
    """Raised if a session belongs to another user than the run. It is raised with every failure policy."""

    def __init__(self, session_id: str, owner: str, user_id: str) -> None:
        self.session_id, self.owner, self.user_id = session_id, owner, user_id
        super().__init__(
            f"Session {session_id!r} belongs to another user than {user_id!r}. Give each user sessions of their own, or name "
            "the user that this session belongs to."
        )


class ToolResultError(JacquardError):
    """Raised if the result of a tool is neither text nor JSON, so that it cannot be stored as evidence."""

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
    """Names of tools whose results are documents. Each document becomes evidence of the type `rag_doc`."""
    record_chunks: bool = True
    """True if the chunks of a streamed answer are passed to the engine while they arrive, several chunks at once."""
    system_in_place: bool = False
    """True if text that changes in each turn stays a system message right before the input.

    This helps with providers that cache the part of a prompt before the changing text. If false, the text is at the end
    of the only system text, because the Anthropic API and some frameworks accept only one system text.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "failure", FailurePolicy(self.failure))
        object.__setattr__(self, "document_tools", frozenset(self.document_tools))


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelRequest:
    """Model call that a framework is about to make."""

    turn_key: str
    """Key of the turn. All model calls for one user message have the same key; the next user message has another one."""
    user: Message
    """User message that the turn answers."""
    history: tuple[Message, ...] = ()
    """Messages before the user's message, oldest first. They are stored if the session is empty."""
    before: tuple[Message, ...] = ()
    """Messages of `history` that other agents sent together with the user's message. They are new, so they are stored."""
    tail: tuple[Mapping[str, Any], ...] = ()
    """Messages after the user's message (tool calls and results) in the form of OpenAI's API. They are only read to
    check their length.
    """
    is_bare: bool = False
    """True if the call contains only our prompt: no system text of the agent and no tools.

    The provider's token count is then a count of our prompt.
    """
    user_id: str | None = None
    """Id of the user of the run (None: unknown)."""
    agent: str = ""
    """Name of the agent that calls the model ('': no name). Its own messages are shown without this name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelAnswer:
    """Answer of a model. `tool_calls` is the number of tools that the answer calls. If it is 0, the answer is for the
    user. `task_id` is the task for which the model was called (None: no task).
    """

    text: str = ""
    tool_calls: int = 0
    model: str = ""
    provider: str = ""
    task_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptPart:
    """One message of the prompt: its role (`system`, `user`, `assistant`) and its text."""

    role: str
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class InjectedPrompt:
    """Our input for a model call."""

    turn_id: str
    system: str
    """System text. It follows the agent's own system text."""
    messages: tuple[PromptPart, ...]
    """Messages that replace the framework's messages up to and including the user's. The last one is the user's
    message.

    The framework's own messages after the user's message follow unchanged.
    """
    reply: str | None = None
    """Reply of the turn, if a declared action of the world has answered it; then no model needs to be called (None: a
    model answers).
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolOutcome:
    """Outcome of a tool call: the result as the framework has it, or the error."""

    result: Any = None
    error: BaseException | str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundDocument:
    """Document that a retriever of the framework found. `score` is on the retriever's own scale."""

    text: str
    uri: str = ""
    name: str = ""
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Step that failed while the agent continued.

    `step` names the step (`prepare`, `tool_call`), and `detail` describes the failure.
    """

    step: str
    session_id: str
    detail: str
    turn_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterReport:
    """Counts of an adapter's actions so far. `problems` contains the newest 100 problems, oldest first."""

    framework: str
    version: str
    turns: int = 0
    governed_calls: int = 0
    """Model calls with our prompt."""
    ungoverned_calls: int = 0
    """Model calls without our prompt."""
    tool_calls: int = 0
    """Recorded calls of tools and of retrievers."""
    usages: int = 0
    chunks: int = 0
    documents: int = 0
    problems: tuple[Problem, ...] = ()
