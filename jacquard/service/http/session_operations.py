"""Operations on sessions as wholes: started, listed, read."""

from __future__ import annotations

from dataclasses import dataclass

from jacquard.service.http.operations import Call, Operation
from mnemosyne.core.errors import SessionExistsError, SessionNotFoundError
from mnemosyne.schema.session import SessionHead


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionRequest:
    """A session to start, in the world of the service."""

    session_id: str


async def start_session(call: Call) -> SessionHead:
    """Start a session; one that is there already is returned as it is."""
    return await call.runtime.ensure_session(call.read(SessionRequest).session_id)


async def get_head(call: Call) -> SessionHead:
    """Return the head of a session."""
    return await call.runtime.store.head(call.ids["session_id"])


OPERATIONS = (
    Operation(
        name="start_session",
        method="POST",
        path="/api/v1/sessions",
        doc="Start a session in the world of the service; one that is there already is returned as it is.",
        run=start_session,
        body=SessionRequest,
        answer=SessionHead,
        status=201,
        errors=(SessionExistsError,),
    ),
    Operation(
        name="get_session_head",
        method="GET",
        path="/api/v1/sessions/{session_id}",
        doc="Return the head of a session: its active branch, its newest turn, its version.",
        run=get_head,
        answer=SessionHead,
        errors=(SessionNotFoundError,),
    ),
)
