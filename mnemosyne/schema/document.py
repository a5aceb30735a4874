"""Defines the values of the session document 1.0: a whole session as one JSON document.

`extra` has the fields of a document that the schema does not know, by JSON name, so that reading and writing loses nothing. If a
known field has a value that cannot be read (such as a time that is not ISO 8601), that value is in `extra` too, under the name of
its field. Times are datetimes with a time zone, or None if the document leaves them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.session import Message
from mnemosyne.values import dataclass

SCHEMA_VERSION = "1.0"


class TaskStatus(StrEnum):
    """Progress of a task."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ToolCallStatus(StrEnum):
    """Outcome of a tool call. RUNNING means that there is no outcome yet."""

    SUCCESS = "success"
    TIMEOUT = "timeout"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    ERROR = "error"
    RUNNING = "running"


class ProviderKind(StrEnum):
    """The kind of party that offers a tool."""

    BUILTIN = "builtin"
    MCP = "mcp"
    OTHER = "other"


class ToolType(StrEnum):
    """Kind of a called capability."""

    TOOL = "tool"
    SKILL = "skill"
    FUNCTION_CALL = "function_call"


class ModelUsageStage(StrEnum):
    """Purpose of a model call."""

    ROUTE = "route"
    PLAN = "plan"
    TOOL_CALL = "tool_call"
    ANSWER = "answer"
    SUMMARIZE = "summarize"
    OTHER = "other"


class ModelUsageStatus(StrEnum):
    """Outcome of a model call."""

    SUCCESS = "success"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageIndexRange:
    """Messages `from_index` to `to_index` (JSON `from` and `to`), counted from 1, both included. 0 and 0 mean no message."""

    from_index: int
    to_index: int
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """A summary of the oldest messages of a session."""

    content: str
    updated_at: datetime | None = None
    message_index_range: MessageIndexRange | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One task of the to-do list. `depends_on` has the ids of the tasks that must be done before."""

    task_id: str
    name: str = ""
    status: TaskStatus = TaskStatus.PENDING
    depends_on: tuple[str, ...] = ()
    result_evidence_ids: tuple[str, ...] = ()
    error: str = ""
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class TodoList:
    """The to-do list (JSON `task_state.todo_list`)."""

    tasks: tuple[Task, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskState:
    """The tasks of a session."""

    todo_list: TodoList = field(default_factory=TodoList)
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolProvider:
    """The party that offers a tool. `uri` is its address, such as `mcp://server`."""

    kind: ProviderKind = ProviderKind.BUILTIN
    name: str = ""
    uri: str = ""
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """One call of a tool, skill or function. `args_digest` has its arguments after redaction, never secrets."""

    tool_call_id: str
    tool: str = ""
    provider: ToolProvider | None = None
    type: ToolType = ToolType.TOOL
    called_at: datetime | None = None
    args_digest: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    status: ToolCallStatus = ToolCallStatus.SUCCESS
    duration_ms: int = 0
    result_evidence_ids: tuple[str, ...] = ()
    task_id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolState:
    """The history of tool calls, oldest first."""

    tool_calls: tuple[ToolCall, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelUsage:
    """One model call with its cost in tokens and time. `first_token_latency_ms` is None if it was not measured."""

    model_usage_id: str
    provider: str = ""
    model: str = ""
    stage: ModelUsageStage = ModelUsageStage.OTHER
    params: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    first_token_latency_ms: int | None = None
    latency_ms: int = 0
    status: ModelUsageStatus = ModelUsageStatus.SUCCESS
    error: str = ""
    task_id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """The conversation of one session. `messages` is ordered oldest first."""

    session_id: str
    messages: tuple[Message, ...] = ()
    summary: Summary | None = None
    task_state: TaskState = field(default_factory=TaskState)
    tool_state: ToolState | None = None
    model_usage: tuple[ModelUsage, ...] | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentInfo:
    """The agent that a session belongs to."""

    agent_id: str
    name: str = ""
    version: str = ""
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Actor:
    """The user and the agent of a session."""

    user_id: str = ""
    user_role: str = ""
    agent: AgentInfo | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Meta:
    """Metadata of a session: its language, times, user and agent."""

    locale: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    actor: Actor | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionDocument:
    """A whole session as one document. `evidences` maps evidence ids to items, in the order of the document.

    `version` is the version of the session in its store. Pass it as `expected_version` when you write the session. It is not in
    the document's JSON, and comparisons of documents ignore it.
    """

    schema_version: str = SCHEMA_VERSION
    meta: Meta | None = None
    session: Session
    evidences: Mapping[str, Evidence] = field(default_factory=lambda: EMPTY)
    context_blocks: tuple[ContextBlock, ...] = ()
    version: int | None = field(default=None, compare=False)
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
