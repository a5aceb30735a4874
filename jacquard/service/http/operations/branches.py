"""Operations on the branches of a session."""

from __future__ import annotations

from dataclasses import dataclass

from jacquard.service.http.call_settings import id_from_key
from jacquard.service.http.operation import Call, Operation
from jacquard.service.http.viewer_guard import check_left_turns
from mnemosyne.core.errors import (
    BranchExistsError,
    BranchNotFoundError,
    SessionNotFoundError,
    TurnNotFoundError,
)
from mnemosyne.schema.session import SessionHead


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


async def list_branches(call: Call) -> tuple[SessionHead, ...]:
    """List branches."""
    return await call.runtime.engine.branches(call.session_id)


async def fork(call: Call) -> SessionHead:
    """Open a branch."""
    sent = call.read(ForkRequest)
    branch_id = sent.branch_id or id_from_key(call, "branch")
    await check_left_turns(call, sent.turn_id)
    try:
        return await call.runtime.engine.fork(call.session_id, sent.turn_id, branch_id)
    except BranchExistsError:
        if sent.branch_id is not None or branch_id is None:
            raise
        # The same key once more: the branch is that of the first call.
        return await call.runtime.engine.switch(call.session_id, branch_id)


async def switch(call: Call) -> SessionHead:
    """Make another branch the active one."""
    branch_id = call.read(SwitchRequest).branch_id
    await check_left_turns(call, branch_id=branch_id)
    return await call.runtime.engine.switch(call.session_id, branch_id)


async def rollback(call: Call) -> SessionHead:
    """Go back to a committed turn."""
    turn_id = call.read(RollbackRequest).turn_id
    await check_left_turns(call, turn_id)
    return await call.runtime.engine.rollback(call.session_id, turn_id)


_SESSION = "/api/v1/sessions/{session_id}"
OPERATIONS = (
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
)
