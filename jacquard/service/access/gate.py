"""The gate of the application: who makes a request, and whether it is let in. Pure ASGI, so that streams pass through as they come.

In this order: the request's id, its Host (on the loopback address), its token, the limits of the tenant and of the process, the
size and the pace of its body, and its time. What is refused is answered in the form of all errors. An endpoint that waits for
another server calls `state.wait_outside` first: it gives its place back, counts as a stream, and has no limit of time from then on.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from time import monotonic
from typing import Any

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jacquard.config.service import ServiceSettings
from jacquard.service.access.admission import Admission, Asked, TooManyRequestsError
from jacquard.service.access.principals import RequestNote
from jacquard.service.affinity import session_in_path
from jacquard.service.answers import INTERNAL, JSON, Refusal, answer_fault
from jacquard.service.values import LOCAL, Principal

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""What anyone may ask, without a token and however busy the service is."""

CHEAP_PATHS = frozenset({"/metrics", "/openapi.json"})
"""What is answered however busy the service is, to those who may ask."""

STREAM_PATHS = re.compile(r"/api/v1/sessions/[^/]+/events")
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
REQUEST_ID = "x-request-id"
_SAFE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

FindPrincipal = Callable[[str], Awaitable[Principal | None]]


Observe = Callable[[RequestNote], None]
PassOn = Callable[[Scope, Mapping[str, str], Receive, Send, RequestNote], Awaitable[Receive | None]]
"""Has another process answer a request (None), or returns the `receive` with which this one works on it."""


class Gate:
    """Wraps the application.

    `find` finds the principal of a token (None: no tenants); `observe` is given every request at its end. `ending` holds the scopes
    of open streams, which the application cancels when it ends. What `pass_on` has answered elsewhere takes no place here.
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
        self._streams = 0
        self._ending = ending if ending is not None else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer why not."""
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
                message = {**message, "headers": [*message["headers"], (REQUEST_ID.encode(), note.request_id.encode())]}
            await send(message)

        try:
            await self._let_in(scope, headers, receive, answer, note)
        except Refusal as refusal:
            note.error_code = refusal.body.code
            if not has_begun:
                await answer_fault(refusal.status, refusal.body, refusal.headers)(scope, receive, answer)
        except Exception as error:
            note.error = error
            if not has_begun:
                await answer_fault(500, INTERNAL)(scope, receive, answer)
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
            _check_host(headers.get("host", ""))
            _check_origin(headers)
        note.principal = await self._find_principal(headers)
        reader = _LimitedBody(receive, headers, self._limits.body_bytes, self._limits.body_seconds)
        received: Receive | None = reader.receive
        if self._pass_on is not None:
            received = await self._pass_on(scope, headers, reader.receive, send, note)
        if received is not None:
            await self._work_on(scope, received, send, note)

    async def _work_on(self, scope: Scope, receive: Receive, send: Send, note: RequestNote) -> None:
        try:
            if STREAM_PATHS.fullmatch(scope["path"]):
                await self._stream(scope, receive, send)
                return
            if scope["path"] in CHEAP_PATHS:
                await self._app(scope, receive, send)
                return
            async with self._admission.admit(_asked(scope, note)) as leave:
                with (
                    anyio.move_on_after(self._limits.request_seconds) as time,
                    self._waiting_outside(leave, time) as wait,
                ):
                    scope["state"]["wait_outside"] = wait
                    await self._app(scope, receive, send)
        except TooManyRequestsError as error:
            raise Refusal(429, "too_many_requests", error.reason, {"retry-after": str(error.seconds)}) from None
        if time.cancelled_caught:
            raise Refusal(
                504,
                "timeout",
                f"The request took more than {self._limits.request_seconds:g} seconds (limits.request_seconds).",
            )

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._streams >= self._limits.streams:
            raise TooManyRequestsError(f"{self._limits.streams} streams are open already (limits.streams).", 5)
        self._streams += 1
        has_begun = False

        async def answer(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            with anyio.CancelScope() as stream:
                self._ending.append(stream)
                await self._app(scope, receive, answer)
            if stream.cancelled_caught and has_begun:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._ending.remove(stream)
            self._streams -= 1

    @contextmanager
    def _waiting_outside(self, leave: Callable[[], None], time: anyio.CancelScope) -> Iterator[Callable[[], None]]:
        """Give what an endpoint calls before it waits for another server: from then on it counts as a stream."""
        waits = False

        def wait_outside() -> None:
            nonlocal waits
            if self._streams >= self._limits.streams:
                raise TooManyRequestsError(f"{self._limits.streams} streams are open already (limits.streams).", 5)
            waits = True
            self._streams += 1
            time.deadline = inf
            leave()

        try:
            yield wait_outside
        finally:
            self._streams -= waits

    async def _find_principal(self, headers: dict[str, str]) -> Principal:
        if self._find is None:
            return LOCAL
        kind, _, token = headers.get("authorization", "").partition(" ")
        token = token.strip() if kind.lower() == "bearer" else headers.get("x-api-key", "")
        found = await self._find(token) if token else None
        if found is None:
            what = "The token is unknown, revoked or expired." if token else "A token is missing."
            advice = "Send one with `Authorization: Bearer jq_…`; `jacquard tokens create` makes one."
            raise Refusal(401, "unauthorized", f"{what} {advice}", {"www-authenticate": "Bearer"})
        return found


class _LimitedBody:
    """The body of a request: at most so many bytes, and in at most so many seconds."""

    def __init__(self, receive: Receive, headers: dict[str, str], most: int, seconds: float) -> None:
        self._receive, self._most, self._read = receive, most, 0
        self._until = anyio.current_time() + seconds
        self._seconds, self._is_whole = seconds, False
        told = headers.get("content-length", "")
        if told.isdigit() and int(told) > most:
            raise self._too_large()

    def _too_large(self) -> Refusal:
        sentence = f"The body has more than {self._most:,} bytes (limits.body_bytes); send less, or raise the limit."
        return Refusal(413, "body_too_large", sentence, {"connection": "close"})

    async def receive(self) -> Any:
        """Return the next part of the request, as ASGI has it."""
        if self._is_whole:
            return await self._receive()
        message: Any = None
        with anyio.move_on_at(self._until):
            message = await self._receive()
        if message is None:
            sentence = f"The body did not arrive in {self._seconds:g} seconds (limits.body_seconds)."
            raise Refusal(408, "body_too_slow", sentence, {"connection": "close"})
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)
            if self._read > self._most:
                raise self._too_large()
        return message


def _asked(scope: Scope, note: RequestNote) -> Asked:
    path = (scope.get("raw_path") or b"").decode("latin-1")
    kind = f"{scope['method']} {path.rpartition('/')[2]}"
    return Asked(note.principal.tenant, session_in_path(path), kind)


def _request_id(headers: dict[str, str]) -> str:
    told = headers.get(REQUEST_ID, "")
    return told if _SAFE_ID.fullmatch(told) else secrets.token_hex(8)


def _check_origin(headers: dict[str, str]) -> None:
    """Refuse what a page of another site sends without asking first, as browsers let it for all that is not said to be JSON."""
    origin, kind = headers.get("origin"), headers.get("content-type", "").partition(";")[0].strip().lower()
    if origin is not None and origin.partition("://")[2] != headers.get("host") and kind != JSON:
        sentence = f"Pages of other sites may not call this service; other programs send `Content-Type: {JSON}`."
        raise Refusal(403, "foreign_origin", sentence)


def _check_host(host: str) -> None:
    """Refuse names that only a browser would have been led to: a page of a stranger must not reach the loopback service."""
    name = host.rpartition(":")[0] if re.search(r":[0-9]{1,5}$", host) else host
    if name.strip("[]").lower() not in LOOPBACK_HOSTS:
        raise Refusal(
            403, "unknown_host", "This service answers as localhost or 127.0.0.1 alone; call it by one of these names."
        )
