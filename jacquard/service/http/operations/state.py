"""Operations on a session's other data: state, tasks, summaries and memory made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from jacquard.core.errors import ConfigError, SummarizerError
from jacquard.memory.consolidate.consolidator import ConsolidationResult
from jacquard.service.host_paths import texts_for
from jacquard.service.http.operation import Call, Operation, Query
from jacquard.service.values import Scope
from jacquard.turns.writing.repair import RepairResult
from mnemosyne.core.errors import (
    BranchNotFoundError,
    SessionNotFoundError,
    StateOpError,
    TurnNotFoundError,
    VersionConflictError,
)
from mnemosyne.schema.document import Summary, Task
from mnemosyne.schema.record import PutResult


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchRequest:
    """The branch to work on (null: the active one)."""

    branch_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsolidateRequest:
    """Branch to consolidate; `chapter_ends`: a chapter ends with its head."""

    branch_id: str | None = None
    chapter_ends: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RepairRequest:
    """Ops on the state by the host's own hand, all or none, as a model writes them."""

    ops: tuple[list[Any] | dict[str, Any], ...]
    reason: str = ""
    branch_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TasksRequest:
    """Tasks to write or replace by id."""

    tasks: tuple[Task, ...]


async def summarize(call: Call) -> Summary | None:
    """Sum up a branch now."""
    return await call.runtime.engine.summarize(call.session_id, branch_id=call.read(BranchRequest).branch_id)


async def consolidate(call: Call) -> ConsolidationResult:
    """Make memory from the turns of a branch."""
    sent = call.read(ConsolidateRequest)
    done = await call.runtime.engine.consolidate(
        call.session_id, branch_id=sent.branch_id, chapter_ends=sent.chapter_ends
    )
    return replace(done, failures=texts_for(call.principal, done.failures))


async def repair(call: Call) -> RepairResult:
    """Apply ops to the state."""
    sent = call.read(RepairRequest)
    return await call.runtime.engine.repair_state(
        call.session_id, sent.ops, reason=sent.reason, branch_id=sent.branch_id
    )


async def get_state(call: Call) -> Mapping[str, Any]:
    """Return the state after a turn."""
    store = call.runtime.store
    turn_id = call.query["turn"] or (await store.head(call.session_id, call.query["branch"])).turn_id
    return await store.state_at(call.session_id, turn_id)


async def list_tasks(call: Call) -> tuple[Task, ...]:
    """List tasks."""
    return await call.runtime.engine.tasks(call.session_id)


async def put_tasks(call: Call) -> PutResult:
    """Write or replace tasks."""
    return await call.runtime.engine.upsert_tasks(call.session_id, call.read(TasksRequest).tasks)


_SESSION = "/api/v1/sessions/{session_id}"
_BRANCH = Query(name="branch", doc="A branch other than the active one.")
OPERATIONS = (
    Operation(
        name="summarize",
        method="POST",
        path=f"{_SESSION}/summarize",
        doc="Sum up a branch now, all but its newest messages; null where nothing is new.",
        run=summarize,
        body=BranchRequest,
        answer=Summary | None,
        errors=(SessionNotFoundError, SummarizerError),
    ),
    Operation(
        name="consolidate",
        method="POST",
        path=f"{_SESSION}/consolidate",
        doc="Turn what was played on a branch into memory: turn summaries, events, narratives over many turns.",
        run=consolidate,
        body=ConsolidateRequest,
        answer=ConsolidationResult,
        errors=(SessionNotFoundError, ConfigError),
    ),
    Operation(
        name="repair_state",
        method="POST",
        path=f"{_SESSION}/repair",
        doc="Apply ops to the state by the host's own hand, all or none, as a turn without messages.",
        run=repair,
        scope=Scope.AUTHOR,
        body=RepairRequest,
        answer=RepairResult,
        errors=(SessionNotFoundError, StateOpError, VersionConflictError),
        is_repeatable=False,
    ),
    Operation(
        name="get_state",
        method="GET",
        path=f"{_SESSION}/state",
        doc="Return the state of a session, at present or after any turn.",
        run=get_state,
        answer=dict[str, Any],
        query=(_BRANCH, Query(name="turn", doc="After this turn (default: the newest).")),
        errors=(SessionNotFoundError, TurnNotFoundError, BranchNotFoundError),
    ),
    Operation(
        name="tasks",
        method="GET",
        path=f"{_SESSION}/tasks",
        doc="List the tasks of a session.",
        run=list_tasks,
        answer=tuple[Task, ...],
        errors=(SessionNotFoundError,),
    ),
    Operation(
        name="upsert_tasks",
        method="PUT",
        path=f"{_SESSION}/tasks",
        doc="Write or replace tasks by id.",
        run=put_tasks,
        body=TasksRequest,
        answer=PutResult,
        errors=(SessionNotFoundError, ConfigError),
    ),
)
