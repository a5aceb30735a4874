"""Makes the routes of the service's own HTTP interface, one for each path of an operation (a function that clients can
call).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jacquard.remote.operation import Operation
from jacquard.remote.operations import OPERATIONS
from jacquard.remote.wire import ErrorBody
from jacquard.service.access.records import ServiceRecords
from jacquard.service.answers import JSON, accepted_language, answer_fault
from jacquard.service.http.endpoints import make_endpoint
from jacquard.service.http.openapi import build_openapi
from jacquard.service.tenants import TenantRuntimes
from mnemosyne.core import codec
from mnemosyne.core.off_loop import run_off_loop

API_VERSION = "1"


def make_routes(tenants: TenantRuntimes, service_records: ServiceRecords | None = None) -> list[Route]:
    """Return one route for each path of `OPERATIONS`, and the route /openapi.json, which describes the operations.

    `tenants` opens the runtime of each tenant (customer). `service_records` contains the tokens and the audit log of
    the service (None: the service has no tenants).
    """

    async def openapi(_: Request) -> Response:
        return Response(await run_off_loop(_describe_operations), media_type=JSON)

    routes = [_route(path, methods, tenants, service_records) for path, methods in _by_path(OPERATIONS).items()]
    return [*routes, Route("/openapi.json", openapi, methods=["GET"])]


@cache
def _describe_operations() -> bytes:
    """Return the description of the operations, which takes as long as all else that makes an application."""
    return codec.encode(build_openapi(OPERATIONS, API_VERSION))


def _by_path(operations: Sequence[Operation]) -> dict[str, dict[str, Operation]]:
    found: dict[str, dict[str, Operation]] = {}
    for each in operations:
        found.setdefault(each.path, {})[each.method] = each
    return found


def _route(
    path: str, methods: Mapping[str, Operation], tenants: TenantRuntimes, service_records: ServiceRecords | None
) -> Route:
    endpoints = {method: make_endpoint(operation, tenants, service_records) for method, operation in methods.items()}

    async def endpoint(request: Request) -> Response:
        return await endpoints["GET" if request.method == "HEAD" else request.method](request)

    return Route(path, endpoint, methods=list(methods))


async def answer_http_fault(request: Request, error: Exception) -> Response:
    """Return the answer to a request to an unknown path or with a wrong method, in the form that all errors of the
    service have. Any other `error` is answered with status 500.
    """
    status = error.status_code if isinstance(error, HTTPException) else 500
    code = {404: "not_found", 405: "method_not_allowed"}.get(status, "http")
    sentence = {
        404: "There is nothing at this address; /openapi.json lists all of them.",
        405: f"{request.method} is not possible here; /openapi.json says what is.",
    }.get(status, "This request cannot be answered.")
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    language = accepted_language(request.headers)
    return answer_fault(status, ErrorBody(code=code, message=sentence), headers, language=language)
