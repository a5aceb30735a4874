"""Operations on sessions: started, listed, read, branched, edited, summed up and repaired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anyio import to_thread

from jacquard.client.wire import message_from_wire
from jacquard.core.errors import ConfigError, InputTooLargeError, SummarizerError
from jacquard.memory.consolidate.consolidator import ConsolidationResult
from jacquard.memory.verbs.find import has_words
from jacquard.service.http.call_settings import id_from_key
from jacquard.service.http.operation import Call, Operation, Query
from jacquard.service.values import Scope
from jacquard.turns.writing.repair import RepairResult
from mnemosyne.chains.audience import may_read, read_audience
from mnemosyne.core import codec
from mnemosyne.core.errors import (
    BranchExistsError,
    BranchNotFoundError,
    SchemaValidationError,
    SessionExistsError,
    SessionNotFoundError,
    StateOpError,
    TurnNotFoundError,
    VersionConflictError,
)
from mnemosyne.documents.session_json import document_from_json, document_to_json
from mnemosyne.evidence.documents import index_documents
from mnemosyne.schema.document import Summary, Task
from mnemosyne.schema.memory import is_profile_session
from mnemosyne.schema.record import PutResult, TurnRecord
from mnemosyne.schema.session import Message, SessionHead, TurnKind, TurnStatus

MOST_LISTED = 200
SentChatMessage = str | dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionRequest:
    """A session to start. `world_id` names a world of the store; without it the session begins in the world of the service."""

    session_id: str
    world_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionPage:
    """Session ids in order; `next` continues the list (null at its end)."""

    items: tuple[str, ...]
    next: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PastTurn:
    """A committed turn of the history, without its prompt and its receipt."""

    turn_id: str
    branch_id: str
    depth: int
    kind: TurnKind
    status: TurnStatus
    messages: tuple[Message, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnPage:
    """Turns, oldest first; `before` continues to older ones (null where there are none)."""

    items: tuple[PastTurn, ...]
    before: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentRequest:
    """A session document (1.0) to write; it replaces the stored one if that has `expected_version`."""

    document: dict[str, Any]
    expected_version: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ForkRequest:
    """A branch to open after a committed turn (null: before the first)."""

    turn_id: str | None = None
    branch_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SwitchRequest:
    """The branch to make the active one."""

    branch_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RollbackRequest:
    """The committed turn to go back to (null: before the first)."""

    turn_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class EditRequest:
    """Another text for a message."""

    content: str
    branch_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptRequest:
    """Messages that were exchanged elsewhere, oldest first."""

    messages: tuple[SentChatMessage, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchRequest:
    """The branch to work on (null: the active one)."""

    branch_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsolidateRequest:
    """The branch to turn into memory; `chapter_ends` where a chapter ends with its head."""

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


async def list_sessions(call: Call) -> SessionPage:
    """List sessions."""
    wanted, after, limit = call.query["query"], call.query["after"], call.query["limit"]
    names = [each for each in await call.runtime.store.sessions() if each > after and not is_profile_session(each)]
    found = [each for each in names if has_words(each, wanted)]
    return SessionPage(items=tuple(found[:limit]), next=found[limit - 1] if len(found) > limit else None)


async def start_session(call: Call) -> SessionHead:
    """Start a session; ConfigError for an empty or a reserved id."""
    sent, engine = call.read(SessionRequest), call.runtime.engine
    if not sent.session_id.strip() or is_profile_session(sent.session_id):
        raise ConfigError("session_id is empty or reserved; choose another.")
    if sent.world_id is None:
        return await call.runtime.ensure_session(sent.session_id)
    return await engine.start_session(sent.session_id, await engine.worlds.world(sent.world_id))


async def get_head(call: Call) -> SessionHead:
    """Return the head of a branch."""
    return await call.runtime.store.head(call.session_id, call.query["branch"])


async def get_document(call: Call) -> dict[str, Any]:
    """Return the session document; SessionNotFoundError."""
    document = await call.runtime.store.get_session(call.session_id, branch_id=call.query["branch"])
    if document is None:
        raise SessionNotFoundError(call.session_id)
    return await to_thread.run_sync(document_to_json, document)


async def put_document(call: Call) -> PutResult:
    """Write the session document."""
    sent = call.read(DocumentRequest)
    document = await to_thread.run_sync(document_from_json, sent.document)
    done = await call.runtime.store.put_session(call.session_id, document, expected_version=sent.expected_version)
    await index_documents(call.runtime.store, call.session_id)
    return done


async def list_turns(call: Call) -> TurnPage:
    """List committed turns."""
    limit, before = call.query["limit"], call.query["before"]
    found = await call.runtime.store.turns(
        call.session_id, limit=limit, branch_id=call.query["branch"], before_depth=before
    )
    oldest = found[0].depth if found else 1
    viewer = call.principal.viewer
    return TurnPage(items=tuple(_show_turn(each, viewer) for each in found), before=oldest if oldest > 1 else None)


def _show_turn(record: TurnRecord, viewer: str | None) -> PastTurn:
    messages = record.messages
    if viewer is not None:
        messages = tuple(each for each in messages if may_read(read_audience(each.extra), viewer))
    return PastTurn(
        turn_id=record.turn_id,
        branch_id=record.branch_id,
        depth=record.depth,
        kind=record.kind,
        status=record.status,
        messages=messages,
    )


async def list_branches(call: Call) -> tuple[SessionHead, ...]:
    """List branches."""
    return await call.runtime.engine.branches(call.session_id)


async def fork(call: Call) -> SessionHead:
    """Open a branch."""
    sent = call.read(ForkRequest)
    branch_id = sent.branch_id or id_from_key(call, "branch")
    try:
        return await call.runtime.engine.fork(call.session_id, sent.turn_id, branch_id)
    except BranchExistsError:
        if sent.branch_id is not None or branch_id is None:
            raise
        # The same key once more: the branch is that of the first call.
        return await call.runtime.engine.switch(call.session_id, branch_id)


async def switch(call: Call) -> SessionHead:
    """Make another branch the active one."""
    return await call.runtime.engine.switch(call.session_id, call.read(SwitchRequest).branch_id)


async def rollback(call: Call) -> SessionHead:
    """Go back to a committed turn."""
    return await call.runtime.engine.rollback(call.session_id, call.read(RollbackRequest).turn_id)


async def edit(call: Call) -> SessionHead:
    """Give a message another text."""
    sent = call.read(EditRequest)
    return await call.runtime.engine.edit_message(
        call.session_id, call.ids["message_id"], sent.content, branch_id=sent.branch_id
    )


async def adopt(call: Call) -> SessionHead:
    """Take in messages that were exchanged elsewhere."""
    messages = [message_from_wire(each) for each in call.read(AdoptRequest).messages]
    return await call.runtime.engine.adopt_messages(call.session_id, messages)


async def summarize(call: Call) -> Summary | None:
    """Sum up a branch now."""
    return await call.runtime.engine.summarize(call.session_id, branch_id=call.read(BranchRequest).branch_id)


async def consolidate(call: Call) -> ConsolidationResult:
    """Turn what was played into memory."""
    sent = call.read(ConsolidateRequest)
    return await call.runtime.engine.consolidate(
        call.session_id, branch_id=sent.branch_id, chapter_ends=sent.chapter_ends
    )


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


async def get_window_messages(call: Call) -> bytes:
    """Return the newest messages of a branch."""
    window = await call.runtime.store.window(
        call.session_id, message_limit=call.query["limit"], branch_id=call.query["branch"]
    )
    viewer = call.principal.viewer
    shown = [
        each.message
        for each in window.messages
        if viewer is None or may_read(read_audience(each.message.extra), viewer)
    ]
    return codec.encode(shown)


_SESSION = "/api/v1/sessions/{session_id}"
_BRANCH = Query(name="branch", doc="A branch other than the active one.")
OPERATIONS = (
    Operation(
        name="list_sessions",
        method="GET",
        path="/api/v1/sessions",
        doc="List the ids of sessions, in order.",
        run=list_sessions,
        answer=SessionPage,
        query=(
            Query(name="query", doc="Only ids that contain these words.", default=""),
            Query(name="after", doc="Only ids behind this one.", default=""),
            Query(name="limit", doc="At most so many.", kind=int, default=50, least=1, most=MOST_LISTED),
        ),
    ),
    Operation(
        name="start_session",
        method="POST",
        path="/api/v1/sessions",
        doc="Start a session; in the world of the service, one that is there already is returned as it is.",
        run=start_session,
        body=SessionRequest,
        answer=SessionHead,
        status=201,
        errors=(SessionExistsError, SessionNotFoundError),
        open_to_viewers=True,
    ),
    Operation(
        name="get_session_head",
        method="GET",
        path=_SESSION,
        doc="Return the head of a session: its active branch, its newest turn, its version.",
        run=get_head,
        answer=SessionHead,
        query=(_BRANCH,),
        errors=(SessionNotFoundError, BranchNotFoundError),
        open_to_viewers=True,
    ),
    Operation(
        name="get_document",
        method="GET",
        path=f"{_SESSION}/document",
        doc="Return a session as a document of version 1.0 (docs/documents.md).",
        run=get_document,
        answer=dict[str, Any],
        query=(_BRANCH,),
        errors=(SessionNotFoundError, BranchNotFoundError),
        is_audited=True,
    ),
    Operation(
        name="put_document",
        method="PUT",
        path=f"{_SESSION}/document",
        doc="Write a session as a document of version 1.0; a version other than the expected one is a conflict.",
        run=put_document,
        scope=Scope.AUTHOR,
        body=DocumentRequest,
        answer=PutResult,
        errors=(VersionConflictError, SchemaValidationError),
    ),
    Operation(
        name="list_turns",
        method="GET",
        path=f"{_SESSION}/turns",
        doc="List committed turns of a branch, the newest page first.",
        run=list_turns,
        answer=TurnPage,
        query=(
            _BRANCH,
            Query(name="before", doc="Only turns before this depth.", kind=int, least=1, most=10**12),
            Query(name="limit", doc="At most so many.", kind=int, default=20, least=1, most=MOST_LISTED),
        ),
        errors=(SessionNotFoundError, BranchNotFoundError),
        open_to_viewers=True,
    ),
    Operation(
        name="list_messages",
        method="GET",
        path=f"{_SESSION}/messages",
        doc="List the newest messages of a branch, oldest first.",
        run=get_window_messages,
        answer=tuple[Message, ...],
        query=(_BRANCH, Query(name="limit", doc="At most so many.", kind=int, default=50, least=1, most=2_000)),
        errors=(SessionNotFoundError, BranchNotFoundError),
        open_to_viewers=True,
    ),
    Operation(
        name="branches",
        method="GET",
        path=f"{_SESSION}/branches",
        doc="List the heads of all branches, the active one first.",
        run=list_branches,
        answer=tuple[SessionHead, ...],
        errors=(SessionNotFoundError,),
        open_to_viewers=True,
    ),
    Operation(
        name="fork",
        method="POST",
        path=f"{_SESSION}/fork",
        doc="Open a branch after a committed turn and make it the active one.",
        run=fork,
        body=ForkRequest,
        answer=SessionHead,
        errors=(SessionNotFoundError, TurnNotFoundError, BranchExistsError),
        open_to_viewers=True,
    ),
    Operation(
        name="switch",
        method="POST",
        path=f"{_SESSION}/switch",
        doc="Make another branch the active one.",
        run=switch,
        body=SwitchRequest,
        answer=SessionHead,
        errors=(SessionNotFoundError, BranchNotFoundError),
        open_to_viewers=True,
    ),
    Operation(
        name="rollback",
        method="POST",
        path=f"{_SESSION}/rollback",
        doc="Go back to a committed turn; what follows it stays on its branch.",
        run=rollback,
        body=RollbackRequest,
        answer=SessionHead,
        errors=(SessionNotFoundError, TurnNotFoundError),
        open_to_viewers=True,
        is_repeatable=False,
    ),
    Operation(
        name="edit_message",
        method="PATCH",
        path=f"{_SESSION}/messages/{{message_id}}",
        doc="Give a message another text, on a new branch where all that follows it is as it was.",
        run=edit,
        body=EditRequest,
        answer=SessionHead,
        errors=(SessionNotFoundError, ConfigError, InputTooLargeError),
    ),
    Operation(
        name="adopt_messages",
        method="POST",
        path=f"{_SESSION}/adopt",
        doc="Take in messages that were exchanged elsewhere; the same messages again change nothing.",
        run=adopt,
        body=AdoptRequest,
        answer=SessionHead,
        errors=(ConfigError, InputTooLargeError),
    ),
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
