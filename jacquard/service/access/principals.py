"""Record of a request: its caller, and the data for its log line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from starlette.requests import HTTPConnection

from jacquard.service.answers import Refusal
from jacquard.service.ids import check_ids
from jacquard.service.values import LOCAL, Principal, Scope


@dataclass(kw_only=True, slots=True)
class RequestNote:
    """Record of a request, filled while it is processed, for the log and the metrics."""

    request_id: str = ""
    method: str = ""
    path: str = ""
    principal: Principal = LOCAL
    operation: str = ""
    """'' until one is found for the address."""
    turn_id: str = ""
    status: int = 0
    seconds: float = 0.0
    error_code: str = ""
    """Code of the answer, if it is an error."""
    audit: str = ""
    """Name of an audited read."""
    error: BaseException | None = None
    """Unexpected fault."""
    is_passed_on: bool = False
    """True if another process of the service answered the request and logs it."""


def principal_of(request: HTTPConnection) -> Principal:
    """Return the caller of a request; `LOCAL` for a service without tenants."""
    return note_of(request).principal


def act_as(principal: Principal, viewer: str | None, author: str | None = None) -> Principal:
    """Return a principal that sees everything `viewer` may know and edits as `author`.

    A token's edits are its own, whatever `author` is. Raises Refusal for another viewer than the token's, and ConfigError for a
    name that cannot be an id.
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
    """Return the record of a request, which the gate has made."""
    return cast(RequestNote, request.state.note)
