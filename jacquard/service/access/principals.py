"""What is known of a request: who makes it, and what the log says of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from starlette.requests import HTTPConnection

from jacquard.service.answers import Refusal
from jacquard.service.ids import check_ids
from jacquard.service.values import LOCAL, Principal, Scope


@dataclass(kw_only=True, slots=True)
class RequestNote:
    """What is known of a request: filled while it is worked on, for the log and the metrics.

    `operation` is empty until one is found for the address. `error_code` is that of the answer, where it is an error. `error` is
    a fault that nobody expected. `audit` names a read that is audited. What `is_passed_on` was answered by another process of the
    service, which notes it.
    """

    request_id: str = ""
    method: str = ""
    path: str = ""
    principal: Principal = LOCAL
    operation: str = ""
    turn_id: str = ""
    status: int = 0
    seconds: float = 0.0
    error_code: str = ""
    audit: str = ""
    error: BaseException | None = None
    is_passed_on: bool = False


def principal_of(request: HTTPConnection) -> Principal:
    """Return who makes a request; of a service without tenants it is `LOCAL`."""
    return note_of(request).principal


def act_as(principal: Principal, viewer: str | None, author: str | None = None) -> Principal:
    """Return a principal that sees what `viewer` may know and edits as `author`; Refusal for another viewer than its token's.

    Where there is a token, edits are its own, whatever `author` says. ConfigError for a name that cannot be an id.
    """
    check_ids({"viewer": viewer, "author": author})
    if viewer and principal.viewer not in (None, viewer):
        raise Refusal(
            403, "viewer_bound", f"This caller is bound to the viewer {principal.viewer!r}; leave viewer out."
        )
    if viewer:
        principal = replace(principal, viewer=viewer, scope=Scope.PLAY)
    return replace(principal, author=author.strip()) if author and not principal.token_id else principal


def note_of(request: HTTPConnection) -> RequestNote:
    """Return the note of a request, which the gate has made."""
    return cast(RequestNote, request.state.note)
