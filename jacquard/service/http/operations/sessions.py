"""Operations on sessions: started, listed, read, written and edited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anyio import to_thread

from jacquard.client.wire import message_from_wire
from jacquard.core.errors import ConfigError, InputTooLargeError
from jacquard.memory.verbs.find import has_words
from jacquard.service.http.body_sizes import MOST
from jacquard.service.http.operation import Call, Operation, Query
from jacquard.service.ids import check_ids
from jacquard.service.values import MOST_MESSAGES, Scope
from mnemosyne.chains.audience import may_read, read_audience
from mnemosyne.core import codec
from mnemosyne.core.errors import (
    BranchNotFoundError,
    SchemaValidationError,
    SessionExistsError,
    SessionNotFoundError,
    VersionConflictError,
)
from mnemosyne.documents.session_json import document_from_json, document_to_json
from mnemosyne.evidence.documents import index_documents
from mnemosyne.schema.document import SessionDocument
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
class EditRequest:
    """Another text for a message."""

    content: str
    branch_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptRequest:
    """Messages that were exchanged elsewhere, oldest first."""

    messages: tuple[SentChatMessage, ...] = field(metadata={MOST: MOST_MESSAGES})


async def list_sessions(call: Call) -> SessionPage:
    """List sessions."""
    wanted, after, limit = call.query["query"], call.query["after"], call.query["limit"]
    names = [each for each in await call.runtime.store.sessions() if each > after and not is_profile_session(each)]
    found = [each for each in names if has_words(each, wanted)]
    return SessionPage(items=tuple(found[:limit]), next=found[limit - 1] if len(found) > limit else None)


async def start_session(call: Call) -> SessionHead:
    """Start a session."""
    sent, engine = call.read(SessionRequest), call.runtime.engine
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
    document = await to_thread.run_sync(_read_document, sent.document)
    done = await call.runtime.store.put_session(call.session_id, document, expected_version=sent.expected_version)
    await index_documents(call.runtime.store, call.session_id)
    return done


def _read_document(sent: Mapping[str, Any]) -> SessionDocument:
    document = document_from_json(sent)
    check_ids(document)
    check_ids(tuple(document.evidences.values()))
    return document


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
)
