"""Makes the HTTP endpoint of each operation: reads and checks the request, runs the operation for the tenant, and writes
the answer.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields
from typing import Any
from urllib.parse import quote, unquote

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from jacquard.core.sentences import LANGUAGES
from jacquard.remote.bodies import check_sizes
from jacquard.remote.operation import Operation, Query
from jacquard.service.access.principals import RequestNote, act_as, note_of
from jacquard.service.access.records import ServiceRecords
from jacquard.service.answers import JSON, Refusal, accepted_language, answer_error, describe, translate_answer
from jacquard.service.host_paths import error_for
from jacquard.service.http.call import Call, Run
from jacquard.service.http.handlers import run_call
from jacquard.service.ids import check_id, check_ids
from jacquard.service.tenants import TenantRuntimes
from jacquard.service.values import Principal
from mnemosyne.core import codec
from mnemosyne.core.errors import UnreadableError
from mnemosyne.core.off_loop import calculate, size_of

KEY_HEADER = "idempotency-key"
MOST_KEY_CHARS = 255
ONE_PROCESS = (
    "This service runs in several processes that cannot reach each other on this system, so each would see a part of the events: "
    "read the turns, or start it without --workers."
)
OWNER_GONE = "The process that has the events of this session is being replaced; ask again."

_KEPT = "/%:@!$&'()*+,;="
_CHAT = re.compile(r"/+v1/+(?:chat/+completions|messages(?:/+count_tokens)?|models)/*")
"""Addresses of chat clients, however many slashes a base URL adds to them."""
_SLASHES = re.compile(r"//+")
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]")

Endpoint = Callable[[Request], Awaitable[Response]]


class EncodedPaths:
    """Middleware that brings the path of every request into one normal form, before routing or anything else reads it.

    Letters, digits and `-._~` are decoded, characters that a path must not contain are encoded, and other characters
    stay as sent. Therefore `%2F` stays a part of an id, and the endpoint decodes each id once. Surplus slashes in the
    paths of chat clients are removed.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Bring the path of a request into its normal form, and pass the request on."""
        if scope["type"] == "http":
            raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
            scope = {**scope, "path": spell_path(raw.partition(b"?")[0])}
        await self._app(scope, receive, send)


def spell_path(raw: bytes) -> str:
    """Return the normal form of a received path, `raw`."""
    path = _ENCODED.sub(lambda found: _spell(found[0]), quote(raw, safe=_KEPT))
    return _SLASHES.sub("/", path).rstrip("/") if _CHAT.fullmatch(path) else path


def _spell(encoded: str) -> str:
    char = chr(int(encoded[1:], 16))
    return char if _UNRESERVED.fullmatch(char) else encoded.upper()


def make_endpoint(operation: Operation, tenants: TenantRuntimes, records: ServiceRecords | None = None) -> Endpoint:
    """Return the endpoint of an operation. `records` contains the tokens and the audit of the service (None: the
    service has no tenants).
    """

    async def endpoint(request: Request) -> Response:
        note = note_of(request)
        note.operation = operation.name
        check_access(operation, note.principal)
        if operation.in_one_process and tenants.processes > 1:
            _check_owner(request)
        key = _read_key(request, operation)
        ids = {name: decode_id(name, value) for name, value in request.path_params.items()}
        query = _read_query(operation.query, request)
        body = None if operation.body is None else await read_body(request, operation.body)
        try:
            note.principal = act_as(note.principal, query.get("viewer"), query.get("author"))
            note.turn_id = ids.get("turn_id") or getattr(body, "turn_id", None) or ""
            value = await run_operation(operation, tenants, records, note, ids=ids, query=query, body=body, key=key)
        except Refusal:
            raise
        except Exception as error:
            return answer_failure(request, error)
        if isinstance(value, Response):
            return value
        if operation.answer is None:
            return Response(status_code=204)
        if operation.has_sentences and (language := accepted_language(request.headers)) != LANGUAGES[0]:
            value = await to_thread.run_sync(translate_answer, value, language)
        return Response(value if isinstance(value, bytes) else codec.encode(value), operation.status, media_type=JSON)

    return endpoint


def answer_failure(request: Request, error: Exception) -> Response:
    """Return the answer of a request that failed with `error`, and note the error for the log."""
    note = note_of(request)
    body = error_for(note.principal, describe(error))
    language = accepted_language(request.headers)
    answer, note.error_code = answer_error(error, body, language), body.code
    if answer.status_code == 500:
        note.error = error
    return answer


async def run_operation(
    operation: Operation,
    tenants: TenantRuntimes,
    records: ServiceRecords | None,
    note: RequestNote,
    run: Run | None = None,
    **sent: Any,
) -> Any:
    """Run an operation for a caller who may call it, and return the answer. `run` is the handler (None: the handler of
    the operation). `records` contains the tokens and the audit of the service (None: the service has no tenants).
    `note` is the record of the request, with its caller.

    `sent` contains the other fields of `Call`. A call of an audited operation is recorded before it is answered. Raises
    ConfigError if an id or a size is invalid. Errors of quotas, of opening the tenant's store and of the operation
    itself pass through.
    """
    await _check_sent(**sent)
    if operation.is_audited:
        note.audit = operation.name
        if records is not None:
            await records.audit.record(note.principal, operation.name, note.request_id)
    async with tenants.use(note.principal.tenant) as runtime:
        call = Call(runtime=runtime, note=note, records=records, tenants=tenants, **sent)
        if not call.is_dry_run:
            await tenants.quotas.check(operation.name, note.principal.tenant, runtime.store)
        return await (run_call(operation, call) if run is None else run(call))


async def _check_sent(*, ids: Mapping[str, str], query: Mapping[str, Any], body: Any, **_: Any) -> None:
    for name, text in ids.items():
        check_id(name, text)
    check_ids(query)
    if body is not None:
        await calculate(_check_body, body, size=size_of(*(getattr(body, each.name) for each in fields(body))))


def _check_body(body: Any) -> None:
    check_sizes(body)
    check_ids(body)


def _check_owner(request: Request) -> None:
    """Refuse a request whose data are in another process's memory."""
    if getattr(request.state, "owner_is_gone", False):
        raise Refusal(503, "worker_restarting", OWNER_GONE)
    if not getattr(request.state, "is_at_owner", False):
        raise Refusal(409, "several_processes", ONE_PROCESS)


def check_access(operation: Operation, principal: Principal) -> None:
    """Check whether a caller may call an operation. Raises Refusal if its scope or its viewer does not allow this."""
    needed = operation.scope.value
    if not principal.allows(operation.scope):
        raise Refusal(403, "forbidden", f"This needs a token of scope {needed}.", scope=needed)
    if principal.viewer is not None and not operation.open_to_viewers:
        raise Refusal(403, "viewer_bound", f"A token that is bound to a viewer may not call {operation.name}.")


def decode_id(name: str, sent: str) -> str:
    """Return an id from a path, decoded. Raises Refusal if `sent` is empty, or is not valid percent-encoded UTF-8."""
    try:
        decoded = unquote(sent, errors="strict")
    except UnicodeDecodeError:
        decoded = ""
    if not decoded or re.search(r"%(?![0-9A-Fa-f]{2})", sent):
        raise Refusal(400, "bad_id", f"{name} in the address is not UTF-8 text with percent signs as %25.", name=name)
    return decoded


def _read_query(known: tuple[Query, ...], request: Request) -> Mapping[str, Any]:
    by_name = {each.name: each for each in known}
    for name in request.query_params:
        if name not in by_name:
            listed = ", ".join(by_name) or "none"
            raise Refusal(400, "bad_query", f"There is no parameter {name!r} here; there are: {listed}.", name=name)
    # A list may also be sent as one parameter for each of its names; of any other parameter the last one counts.
    sent = {name: ",".join(request.query_params.getlist(name)) for name in by_name if by_name[name].kind is tuple}
    sent = {**request.query_params, **{name: text for name, text in sent.items() if name in request.query_params}}
    return {each.name: read_parameter(each, sent.get(each.name)) for each in known}


def read_parameter(known: Query, sent: str | None) -> Any:
    """Return the value of the query parameter `known`. `sent` is the text of the parameter (None: it was not sent, so
    the default applies). Raises Refusal if the text is invalid.
    """
    if sent is None:
        return known.default
    if known.kind is bool and sent in ("true", "false"):
        return sent == "true"
    if known.kind is int and re.fullmatch(r"-?[0-9]{1,15}", sent):
        number = int(sent)
        if (known.least is None or number >= known.least) and (known.most is None or number <= known.most):
            return number
    if known.kind is str:
        return sent
    if known.kind is tuple:
        names = tuple(each.strip() for each in sent.split(","))
        if wrong := [each for each in names if each not in known.names]:
            choices = ", ".join(known.names)
            sentence = f"{known.name} names {wrong[0][:40]!r}; choose from {choices}, with commas between several."
            raise Refusal(400, "bad_query", sentence, name=known.name)
        return names
    kinds = {bool: "true or false", int: f"a whole number from {known.least} to {known.most}"}
    raise Refusal(400, "bad_query", f"{known.name} is {sent[:40]!r}; give {kinds[known.kind]}.", name=known.name)


async def read_body(request: Request, kind: Any) -> Any:
    """Return the JSON body of a request as a value of `kind`. Raises Refusal if it is not valid."""
    sent = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if sent != JSON:
        raise Refusal(415, "not_json", f"The body is {sent[:60]!r}; send JSON with `Content-Type: {JSON}`.")
    data = await request.body()
    try:
        return await calculate(codec.decode, data or b"{}", kind, size=len(data))
    except UnreadableError as error:
        raise Refusal(400, "bad_body", str(error)) from None


def _read_key(request: Request, operation: Operation) -> str:
    key = request.headers.get(KEY_HEADER, "")
    if key and not operation.is_repeatable:
        sentence = f"{operation.name} does more when it is called again, so it takes no Idempotency-Key; leave it out."
        raise Refusal(400, "not_repeatable", sentence)
    if len(key) > MOST_KEY_CHARS:
        raise Refusal(400, "bad_key", f"The header Idempotency-Key has more than {MOST_KEY_CHARS} characters.")
    return key
