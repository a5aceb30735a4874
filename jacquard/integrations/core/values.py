"""What passes between an agent framework's hooks and the adapter, without the framework's own types. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jacquard.core.errors import JacquardError
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.session import Message


class FailurePolicy(StrEnum):
    """What happens when the engine fails: the agent goes on without it (`open`), or its run ends with the error (`closed`)."""

    OPEN = "open"
    CLOSED = "closed"


class FrameworkError(JacquardError):
    """A framework cannot be used: it is older than the adapter needs, or a hook that the adapter overrides is gone."""


class SessionOwnerError(JacquardError):
    """A session belongs to another user than the one that the run is for; it is raised under every failure policy."""

    def __init__(self, session_id: str, owner: str, user_id: str) -> None:
        self.session_id, self.owner, self.user_id = session_id, owner, user_id
        super().__init__(
            f"Session {session_id!r} belongs to another user than {user_id!r}. Give each user sessions of their own, or name "
            "the user that this session belongs to."
        )


class ToolResultError(JacquardError):
    """The result of a tool is neither text nor JSON, so it cannot be kept as evidence."""

    def __init__(self, tool: str, call_id: str, kind: str) -> None:
        self.tool, self.call_id, self.kind = tool, call_id, kind
        super().__init__(
            f"The result of tool {tool!r} (call {call_id!r}) is a {kind}, neither text nor JSON. Let the tool return "
            "text; the call is recorded without its result."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterOptions:
    """How an adapter works.

    `failure`: see `FailurePolicy`. `document_tools` are the names of tools whose results are documents: each becomes evidence
    of type `rag_doc`. `record_chunks`: whether streamed chunks are handed to the engine as they come. `system_in_place`: whether
    what changes in each turn stays a system message before the input, where the provider's cache keeps what is before it;
    by default it is at the end of the one system text, because the Anthropic API and some frameworks take no other.
    """

    failure: FailurePolicy = FailurePolicy.OPEN
    document_tools: frozenset[str] = frozenset()
    record_chunks: bool = True
    system_in_place: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "failure", FailurePolicy(self.failure))
        object.__setattr__(self, "document_tools", frozenset(self.document_tools))


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelRequest:
    """One call of the model, as a framework is about to make it.

    `turn_key` is the same for all model calls of one message of the user, and another for the next one. `user` is that message;
    `history` are the messages before it, oldest first, by which a session that is still empty is filled; `before` are those of them
    that came with the user's message (from other agents, with ids), which the session cannot have yet. `tail` are the messages
    after it (tool calls and their results) in the shape of OpenAI's API, by which their cost is checked.
    `is_bare`: nothing but our prompt is sent (no system text of the agent, no tools), so the provider's count is one of it.
    `user_id`: the user of the run, where it is known.
    """

    turn_key: str
    user: Message
    history: tuple[Message, ...] = ()
    before: tuple[Message, ...] = ()
    tail: tuple[Mapping[str, Any], ...] = ()
    is_bare: bool = False
    user_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelAnswer:
    """What a model answered: its text, and how many tools it calls (0: it is an answer to the user)."""

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
    """What an adapter puts into a model call.

    `system` follows the agent's own system text. `messages` replace the framework's messages up to and with that of the user: the
    history window, then the user's message, which is the last. The framework's tail follows them untouched. `reply` is set
    where the turn is complete already (a numerical turn) and no model needs to be called.
    """

    turn_id: str
    system: str
    messages: tuple[PromptPart, ...]
    reply: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolOutcome:
    """How a tool call ended: the framework's result as it is, or the error."""

    result: Any = None
    error: BaseException | str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundDocument:
    """A document that a retriever of the framework returned; `score` is on the retriever's own scale."""

    text: str
    uri: str = ""
    name: str = ""
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A step that the agent went on without: `step` names it (`prepare`, `tool_result`), `detail` says what happened."""

    step: str
    session_id: str
    detail: str
    turn_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterReport:
    """What an adapter has done so far, by number; `problems` are the newest 100, oldest first.

    `governed_calls` are model calls that got our prompt, `ungoverned_calls` those that went on without it.
    """

    framework: str
    version: str
    turns: int = 0
    governed_calls: int = 0
    ungoverned_calls: int = 0
    tool_calls: int = 0
    usages: int = 0
    chunks: int = 0
    documents: int = 0
    problems: tuple[Problem, ...] = ()
