"""The principal of a request, which the access check has found before a route is called."""

from __future__ import annotations

from typing import cast

from starlette.requests import HTTPConnection

from jacquard.service.values import LOCAL, Principal


def principal_of(request: HTTPConnection) -> Principal:
    """Return who makes a request; of a service without tenants it is `LOCAL`."""
    return cast(Principal, getattr(request.state, "principal", LOCAL))
