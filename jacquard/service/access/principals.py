"""Records one request: its caller, and the data for its log line and the metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from starlette.requests import HTTPConnection

from jacquard.service.answers import Refusal
from jacquard.service.ids import check_ids
from jacquard.service.values import LOCAL, Principal, Scope
from mnemosyne.values import dataclass


@dataclass(kw_only=True, slots=True)
class RequestNote:
    """Record of one request. It is filled while the request is processed."""

    request_id: str = ""
    method: str = ""
    path: str = ""
    principal: Principal = LOCAL
    operation: str = ""
    """Name of the operation that is called; '' until it is found."""
    turn_id: str = ""
    status: int = 0
    seconds: float = 0.0
    error_code: str = ""
    """Code of the error in the answer; '' if the answer is not an error."""
    audit: str = ""
    """Name of the operation if its calls are audited; otherwise ''."""
    error: BaseException | None = None
    """Unexpected error, for the log."""
    is_passed_on: bool = False
    """True if another process of the service answered the request and logs it."""


def principal_of(request: HTTPConnection) -> Principal:
    """Return the caller of a request. In a service without tenants this is `LOCAL`."""
    return note_of(request).principal


def act_as(principal: Principal, viewer: str | None, author: str | None = None) -> Principal:
    """Return `principal` limited to texts that `viewer` may know (None: no further limit).

    Edits of the caller are recorded under the name `author`. If the caller has a token, edits are recorded under the token
    instead. Raises Refusal if the token is bound to another viewer. Raises ConfigError if `viewer` or `author` cannot be
    an id.
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
    """Return the record of a request. The gate has made it."""
    return cast(RequestNote, request.state.note)
