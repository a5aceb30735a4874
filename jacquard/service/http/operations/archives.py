"""Operations on archived sessions: pack one, list them, open one."""

from __future__ import annotations

from jacquard.core.errors import ConfigError
from jacquard.service.http.operation import Call, Operation, Query
from jacquard.service.values import Scope
from mnemosyne.core.errors import DamagedRecordError, SessionNotFoundError
from mnemosyne.protocols import ArchivedSession


async def archive_session(call: Call) -> ArchivedSession:
    """Archive a session."""
    return await call.runtime.archive_session(call.session_id)


async def open_archived(call: Call) -> None:
    """Open an archived session."""
    await call.runtime.open_archived(call.session_id)


async def list_archived(call: Call) -> tuple[ArchivedSession, ...]:
    """List archived sessions."""
    return await call.runtime.archived_sessions(after=call.query["after"], limit=call.query["limit"])


_ARCHIVE = "/api/v1/sessions/{session_id}/archive"
OPERATIONS = (
    Operation(
        name="archive_session",
        method="PUT",
        path=_ARCHIVE,
        doc="Pack the rows of a session and drop its index; its next turn opens it again. An archived session stays as it is.",
        run=archive_session,
        scope=Scope.AUTHOR,
        answer=ArchivedSession,
        errors=(SessionNotFoundError, ConfigError),
    ),
    Operation(
        name="open_archived",
        method="DELETE",
        path=_ARCHIVE,
        doc="Open an archived session, as its next turn would; an open one stays as it is.",
        run=open_archived,
        scope=Scope.AUTHOR,
        errors=(SessionNotFoundError, ConfigError, DamagedRecordError),
    ),
    Operation(
        name="list_archived",
        method="GET",
        path="/api/v1/archives",
        doc="List archived sessions by their ids: when each was archived, and its size before and after.",
        run=list_archived,
        answer=tuple[ArchivedSession, ...],
        query=(
            Query(name="after", doc="Only ids behind this one.", default=""),
            Query(name="limit", doc="At most so many.", kind=int, default=50, least=1, most=1_000),
        ),
        errors=(ConfigError,),
    ),
)
