"""Middleware before all endpoints: identifies the caller of a request, and admits or refuses the request. It is pure ASGI, so
streamed answers pass unbuffered.

The gate checks these in order: the request id, the host name, the web page that sends the request, the token, the size and
the pace of the body, the limits of the tenant and of the process, and the time. With tenants, the host name is not checked,
and the page is checked only if its browser asks for permission first (a preflight). All refusals have the form of other
errors.

An endpoint that waits for another server calls `state.wait_outside` first. From then on the request occupies no place
(`jacquard.service.access.admission`), has no time limit, and counts as a stream.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from time import monotonic

import anyio
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jacquard.config.service import ServiceSettings
from jacquard.service.access.admission import Admission, AdmissionRequest, Shares, TooManyRequestsError
from jacquard.service.access.bodies import BodyRoom, RequestBody
from jacquard.service.access.origins import check_host, check_origin, headers_for_page, is_preflight, permission_of
from jacquard.service.access.principals import RequestNote
from jacquard.service.affinity import session_in_path
from jacquard.service.answers import INTERNAL, Refusal, accepted_language, answer_fault
from jacquard.service.values import LOCAL, Principal

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths that are open to everyone without a token, and answered however busy the service is."""

CHEAP_PATHS = frozenset({"/metrics", "/openapi.json"})
"""Paths that are answered however busy the service is, but only with a valid token if there are tenants."""

CHAT_PATHS = "/v1/"
STREAM_PATHS = re.compile(r"/api/v1/sessions/[^/]+/events")
REQUEST_ID = "x-request-id"
HAS_ARRIVED = "has_arrived"
"""Key in the state of a request. The key is set if another process of the service has forwarded the request to this
process.
"""
_KEPT_CHARS = 256
"""Maximum length of the recorded part of an address."""

_SAFE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

FindPrincipal = Callable[[str], Awaitable[Principal | None]]


Observe = Callable[[RequestNote], None]
PassOn = Callable[[Scope, Mapping[str, str], RequestBody, Receive, Send, RequestNote], Awaitable[bool]]
"""Function that forwards a request. It returns True if another process has answered it. Its argument `receive` returns
the messages after the body.
"""


class Gate:
    """Wraps the application `app`.

    Args:
        settings: settings of the service.
        admission: gives places to requests.
        find: returns the caller to whom a token belongs (None: the service has no tenants).
        observe: receives the record of every request at its end.
        ending: list of the scopes of open streams. The gate fills it, and the application cancels the scopes when it ends.
        pass_on: forwards a request to the process for its session; a forwarded request takes no place here.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: ServiceSettings,
        admission: Admission,
        find: FindPrincipal | None,
        observe: Observe,
        ending: list[anyio.CancelScope] | None = None,
        pass_on: PassOn | None = None,
    ) -> None:
        self._app, self._settings, self._limits = app, settings, settings.limits
        self._admission, self._find, self._observe = admission, find, observe
        self._pass_on = pass_on
        self._room = BodyRoom(self._limits, is_fair=settings.tenants)
        self._streams = Shares(self._limits.streams, is_fair=settings.tenants)
        self._ending = ending if ending is not None else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an admitted request to the application, and answer a refused one."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        note = RequestNote(request_id=_request_id(headers), method=scope["method"], path=scope["path"])
        scope.setdefault("state", {})["note"] = note
        began, has_begun = monotonic(), False

        async def answer(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                note.status = message["status"]
                more = [(REQUEST_ID.encode(), note.request_id.encode())]
                if not scope["state"].get(HAS_ARRIVED):
                    more += headers_for_page(headers, self._settings.origins)
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        try:
            await self._let_in(scope, headers, receive, answer, note)
        except Refusal as refusal:
            note.error_code = refusal.body.code
            if not has_begun:
                language = accepted_language(headers)
                fault = answer_fault(refusal.status, refusal.body, refusal.headers, language=language)
                await fault(scope, receive, answer)
        except Exception as error:
            note.error = error
            if not has_begun:
                await answer_fault(500, INTERNAL, language=accepted_language(headers))(scope, receive, answer)
        finally:
            note.seconds = monotonic() - began
            self._observe(note)

    async def _let_in(
        self, scope: Scope, headers: dict[str, str], receive: Receive, send: Send, note: RequestNote
    ) -> None:
        if scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        if not self._settings.tenants:
            check_host(headers.get("host", ""), self._settings.hosts)
        asks = is_preflight(scope["method"], headers)
        if asks or not self._settings.tenants:
            check_origin(headers, self._settings.origins, asks=asks)
        if asks:
            # A browser sends no token with it.
            await Response(status_code=204, headers=permission_of(headers))(scope, receive, send)
            return
        note.principal = await self._find_principal(headers)
        with RequestBody(self._room, note.principal.tenant) as body:
            try:
                # The body of a forwarded request counts in the other process's memory until it is here.
                is_counted, is_chat = not scope["state"].get(HAS_ARRIVED), scope["path"].startswith(CHAT_PATHS)
                await body.read(receive, headers, is_counted=is_counted, is_chat=is_chat)
                if self._pass_on is None or not await self._pass_on(scope, headers, body, receive, send, note):
                    await self._work_on(scope, body, receive, send, note)
            except TooManyRequestsError as error:
                raise Refusal(429, "too_many_requests", error.reason, {"retry-after": str(error.seconds)}) from None

    async def _work_on(self, scope: Scope, body: RequestBody, receive: Receive, send: Send, note: RequestNote) -> None:
        if STREAM_PATHS.fullmatch(scope["path"]):
            await self._stream(scope, receive, send, note.principal.tenant)
            return
        if scope["path"] in CHEAP_PATHS:
            await self._app(scope, receive, send)
            return
        async with self._admission.admit(_asked(scope, note)) as leave:
            received = body.receive_again(receive)
            body.release()

            async def answer(message: Message) -> None:
                # The place is only for the processing, because a client may read as slowly as the connection allows.
                leave()
                await send(message)

            with (
                anyio.move_on_after(self._limits.request_seconds) as time,
                self._waiting_outside(leave, time, note.principal.tenant) as wait,
            ):
                scope["state"]["wait_outside"] = wait
                await self._app(scope, received, answer)
        if time.cancelled_caught:
            raise Refusal(
                504,
                "timeout",
                f"The request took more than {self._limits.request_seconds:g} seconds (limits.request_seconds).",
            )

    def _take_stream(self, tenant: str) -> None:
        if not self._streams.take(tenant):
            share = ", and this tenant has its share of them" if self._streams.total < self._limits.streams else ""
            raise TooManyRequestsError(f"{self._streams.total} streams are open already (limits.streams){share}.", 5)

    async def _stream(self, scope: Scope, receive: Receive, send: Send, tenant: str) -> None:
        self._take_stream(tenant)
        has_begun = False

        async def answer(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        stream = anyio.CancelScope()
        self._ending.append(stream)
        try:
            with stream:
                await self._app(scope, receive, answer)
            if stream.cancelled_caught and has_begun:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._ending.remove(stream)
            self._streams.give_back(tenant)

    @contextmanager
    def _waiting_outside(
        self, leave: Callable[[], None], time: anyio.CancelScope, tenant: str
    ) -> Iterator[Callable[[], None]]:
        """Yield the function that an endpoint calls before it waits for another server; from then on it counts as a stream."""
        waits = False

        def wait_outside() -> None:
            nonlocal waits
            self._take_stream(tenant)
            waits = True
            time.deadline = inf
            leave()

        try:
            yield wait_outside
        finally:
            if waits:
                self._streams.give_back(tenant)

    async def _find_principal(self, headers: dict[str, str]) -> Principal:
        if self._find is None:
            return LOCAL
        kind, _, token = headers.get("authorization", "").partition(" ")
        token = token.strip() if kind.lower() == "bearer" else headers.get("x-api-key", "")
        found = await self._find(token) if token else None
        if found is None:
            what = "The token is unknown, revoked or expired." if token else "A token is missing."
            advice = "Send one with `Authorization: Bearer jq_…`; `jacquard operate tokens create` makes one."
            raise Refusal(401, "unauthorized", f"{what} {advice}", {"www-authenticate": "Bearer"})
        return found


def _asked(scope: Scope, note: RequestNote) -> AdmissionRequest:
    path: str = scope["path"]
    kind = f"{scope['method']} {path.rpartition('/')[2][:_KEPT_CHARS]}"
    return AdmissionRequest(note.principal.tenant, session_in_path(path)[:_KEPT_CHARS], kind)


def _request_id(headers: dict[str, str]) -> str:
    told = headers.get(REQUEST_ID, "")
    return told if _SAFE_ID.fullmatch(told) else secrets.token_hex(8)
